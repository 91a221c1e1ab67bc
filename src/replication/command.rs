use postgres_protocol::escape::escape_identifier;

/// `CREATE_REPLICATION_SLOT … LOGICAL pgoutput`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateSlot<'a> {
    /// `slot.name`.
    pub slot: &'a str,
    /// What becomes of it when the session ends, and of the snapshot that it starts from.
    pub kind: SlotKind,
}

/// What kind of slot is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// It stays.
    Permanent {
        /// `slot.failover`; needs PostgreSQL 17.
        failover: bool,
    },
    /// It goes with the session. The snapshot that it starts from is exported for another session to read by.
    TemporaryWithSnapshot,
}

/// `START_REPLICATION SLOT … LOGICAL 0/0`: the slot decides where the stream begins. A position of our own could only
/// skip something (a higher one) or be ignored (a lower one).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartReplication<'a> {
    /// `slot.name`.
    pub slot: &'a str,
    /// `publication.name`.
    pub publication: &'a str,
    /// Whether to send what `pg_logical_emit_message` writes.
    pub messages: bool,
    /// `slot.stream.params`: more options for pgoutput.
    pub more: &'a [(String, String)],
}

impl CreateSlot<'_> {
    /// The command's text. The plain form is understood by every supported version; options in parentheses need 15.
    #[must_use]
    pub fn text(&self) -> String {
        let slot = escape_identifier(self.slot);
        let (temporary, options) = match self.kind {
            SlotKind::Permanent { failover: false } => ("", "NOEXPORT_SNAPSHOT"),
            SlotKind::Permanent { failover: true } => ("", "(SNAPSHOT 'nothing', FAILOVER)"),
            SlotKind::TemporaryWithSnapshot => (" TEMPORARY", "EXPORT_SNAPSHOT"),
        };
        format!("CREATE_REPLICATION_SLOT {slot}{temporary} LOGICAL pgoutput {options}")
    }
}

impl StartReplication<'_> {
    /// The command's text.
    #[must_use]
    pub fn text(&self) -> String {
        // A list of identifiers inside a literal: quoted once as an identifier, once as a literal.
        let publication = literal(&escape_identifier(self.publication));
        let mut options = format!("\"proto_version\" '1', \"publication_names\" {publication}");
        if self.messages {
            options.push_str(", \"messages\" 'true'");
        }
        for (name, value) in self.more {
            options.push_str(&format!(", {} {}", escape_identifier(name), literal(value)));
        }
        format!("START_REPLICATION SLOT {} LOGICAL 0/0 ({options})", escape_identifier(self.slot))
    }
}

/// A literal as the grammar of replication commands has it: a backslash is a backslash, and there is no `E'…'` as in SQL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_for_each_place_they_stand_in() {
        let plain = StartReplication { slot: "s", publication: "p", messages: true, more: &[] };
        assert_eq!(
            plain.text(),
            r#"START_REPLICATION SLOT "s" LOGICAL 0/0 ("proto_version" '1', "publication_names" '"p"', "messages" 'true')"#
        );
        let more = [("a\"b".to_owned(), "it's".to_owned())];
        let hostile = StartReplication { slot: "a\"b", publication: "x', \\y", messages: false, more: &more };
        assert_eq!(
            hostile.text(),
            r#"START_REPLICATION SLOT "a""b" LOGICAL 0/0 ("proto_version" '1', "publication_names" '"x'', \y"', "a""b" 'it''s')"#
        );
    }

    #[test]
    fn a_slot_is_made_with_the_oldest_syntax_that_serves() {
        let cases = [
            (SlotKind::Permanent { failover: false }, r#""s" LOGICAL pgoutput NOEXPORT_SNAPSHOT"#),
            (
                SlotKind::Permanent { failover: true },
                r#""s" LOGICAL pgoutput (SNAPSHOT 'nothing', FAILOVER)"#,
            ),
            (SlotKind::TemporaryWithSnapshot, r#""s" TEMPORARY LOGICAL pgoutput EXPORT_SNAPSHOT"#),
        ];
        for (kind, expected) in cases {
            let text = CreateSlot { slot: "s", kind }.text();
            assert_eq!(text.strip_prefix("CREATE_REPLICATION_SLOT "), Some(expected));
        }
    }
}
