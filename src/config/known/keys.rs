//! Table of all known keys: Debezium's, Connect's, Debezium Server's and outboxd's.

use std::sync::LazyLock;

use crate::connect::option::closest;

/// Text of the table. A key may contain one `<alias>` (any one name between dots) or end in `.*` (any text).
const TABLE: &str = include_str!("keys.tsv");

/// Treatment of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum Status {
    /// Used as Debezium uses it.
    Used,
    /// Used, except where Debezium loses or corrupts data or ends; or with another default, because Debezium's cannot
    /// work for an outbox.
    Better,
    /// Used for change events; with an EventRouter reported once as not used, with the reason.
    Changes,
    /// Reported once as not used, with the reason, unless the value is one of the allowed.
    Ignored,
    /// An error unless the value is one of the allowed: ignoring it could lose or change data.
    Refused,
    /// Name of older versions, which Debezium no longer reads. The reason column contains the current name.
    Renamed,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) struct Row {
    pub pattern: &'static str,
    pub status: Status,
    allowed: &'static str,
    pub reason: &'static str,
}

impl Row {
    /// Returns the values that request nothing that outboxd lacks.
    pub(in crate::config) fn allowed(&self) -> impl Iterator<Item = &'static str> {
        list(self.allowed)
    }

    /// Returns whether a value requests nothing that outboxd lacks.
    pub(in crate::config) fn allows(&self, value: &str) -> bool {
        self.allowed().any(|allowed| allowed.eq_ignore_ascii_case(value.trim()))
    }

    /// Returns the current name of a renamed key.
    pub(in crate::config) fn successor(&self, key: &str) -> String {
        self.reason.replace("<alias>", self.alias(key).unwrap_or("<alias>"))
    }

    fn alias<'a>(&self, key: &'a str) -> Option<&'a str> {
        let (before, after) = self.pattern.split_once("<alias>")?;
        let alias = key.strip_prefix(before)?.strip_suffix(after)?;
        (!alias.is_empty() && !alias.contains('.')).then_some(alias)
    }

    fn matches(&self, key: &str) -> bool {
        if self.pattern.contains("<alias>") {
            return self.alias(key).is_some();
        }
        match self.pattern.strip_suffix('*') {
            Some(prefix) => key.len() > prefix.len() && key.starts_with(prefix),
            None => self.pattern == key,
        }
    }
}

/// Splits a comma-separated column into its items.
pub(in crate::config) fn list(column: &'static str) -> impl Iterator<Item = &'static str> {
    column.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Returns every row, in the order of the keys.
pub(in crate::config) fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| TABLE.lines().skip(1).filter_map(row).collect());
    &ROWS
}

fn row(line: &'static str) -> Option<Row> {
    let mut columns = line.split('\t');
    let pattern = columns.next()?;
    let status = match columns.next()? {
        "used" => Status::Used,
        "better" => Status::Better,
        "changes" => Status::Changes,
        "ignored" => Status::Ignored,
        "refused" => Status::Refused,
        "renamed" => Status::Renamed,
        _ => return None,
    };
    let (allowed, reason) = (columns.next().unwrap_or_default(), columns.next().unwrap_or_default());
    Some(Row { pattern, status, allowed, reason })
}

/// Returns the most exact row of a canonical key.
pub(in crate::config) fn lookup(key: &str) -> Option<&'static Row> {
    let exactness = |row: &&Row| (!row.pattern.ends_with('*'), row.pattern.len());
    rows().iter().filter(|row| row.matches(key)).max_by_key(exactness)
}

/// Returns the known key that is most similar to an unknown one, if any is similar.
pub(in crate::config) fn nearest(key: &str) -> Option<String> {
    let alias = key.strip_prefix("transforms.").and_then(|rest| rest.split('.').next()).unwrap_or("outbox");
    let known = rows().iter().filter(|row| !row.pattern.ends_with('*') && row.status != Status::Renamed);
    closest(key, known.map(|row| row.pattern.replace("<alias>", alias)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_sorted() {
        let lines: Vec<_> = TABLE.lines().collect();
        assert_eq!(lines[0], "key\tstatus\tallowed\treason");
        assert_eq!(rows().len(), lines.len() - 1, "a row has an unknown status");
        assert!(
            lines[1..].is_sorted_by(|a, b| a.split('\t').next() < b.split('\t').next()),
            "unsorted or double"
        );
        for row in rows() {
            let needs_reason = row.status != Status::Used;
            assert_eq!(needs_reason, !row.reason.is_empty(), "{}", row.pattern);
            let is_used = matches!(row.status, Status::Used | Status::Better);
            assert!(!is_used || row.allowed.is_empty(), "{}", row.pattern);
            assert!(!row.reason.ends_with('.'), "{}", row.pattern);
            let is_renamed = row.status == Status::Renamed;
            let named = rows().iter().any(|today| today.pattern == row.reason);
            let of_other_transforms = row.reason.starts_with("transforms.<alias>.");
            assert!(!is_renamed || named || of_other_transforms, "{}: {}", row.pattern, row.reason);
        }
    }

    #[test]
    fn the_most_exact_row_wins() {
        let cases = [
            ("slot.name", Some("slot.name")),
            ("transforms.outbox.route.by.field", Some("transforms.<alias>.route.by.field")),
            ("transforms..type", None),
            ("topic.creation.default.partitions", Some("topic.creation.*")),
            ("internal.key.converter", Some("internal.key.converter")),
            ("internal.slot.seek.to.known.offset.on.start", Some("internal.*")),
            ("key.converter", Some("key.converter")),
            ("key.converter.schemas.enable", Some("key.converter.*")),
            ("producer.", None),
            ("slot.nam", None),
        ];
        for (key, expected) in cases {
            assert_eq!(lookup(key).map(|row| row.pattern), expected, "{key}");
        }
    }

    #[test]
    fn the_nearest_key_is_found() {
        let cases = [
            ("slot.nam", Some("slot.name")),
            ("database.hostnme", Some("database.hostname")),
            ("transforms.ob.route.by.fields", Some("transforms.ob.route.by.field")),
            ("database.tcpkeepalive", Some("database.tcpKeepAlive")),
            ("qqqqqqqqqqq", None),
        ];
        for (key, expected) in cases {
            assert_eq!(nearest(key).as_deref(), expected, "{key}");
        }
    }
}
