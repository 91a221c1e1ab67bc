//! Commands to a walsender.

use postgres_protocol::escape::escape_identifier;

/// `CREATE_REPLICATION_SLOT … LOGICAL pgoutput`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateSlot<'a> {
    /// `slot.name`.
    pub slot: &'a str,
    /// Kind of slot, which determines its lifetime and its snapshot.
    pub kind: SlotKind,
}

/// Kind of a new slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// A slot that remains until it is dropped.
    Permanent {
        /// `slot.failover`; needs PostgreSQL 17.
        failover: bool,
    },
    /// A slot that is dropped at the end of the session. Its snapshot is exported, so that another session can read with it.
    TemporaryWithSnapshot,
}

/// `START_REPLICATION SLOT … LOGICAL 0/0`: the stream begins at the slot's position. A higher position would skip changes, and
/// PostgreSQL ignores a lower one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartReplication<'a> {
    /// `slot.name`.
    pub slot: &'a str,
    /// `publication.name`.
    pub publication: &'a str,
    /// Option to send the messages of `pg_logical_emit_message`.
    pub messages: bool,
    /// `slot.stream.params`: additional options of pgoutput.
    pub more: &'a [(String, String)],
}

impl CreateSlot<'_> {
    /// Returns the command's text. Every supported version accepts the plain form; options in parentheses need version 15.
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
    /// Returns the command's text.
    #[must_use]
    pub fn text(&self) -> String {
        // A list of identifiers inside a literal: quoted as an identifier, then as a literal.
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

/// Returns a literal in the grammar of replication commands, in which a backslash is not special and SQL's `E'…'` does not exist.
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
