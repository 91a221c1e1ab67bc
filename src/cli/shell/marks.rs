//! Names of columns in which programs that poll an outbox mark sent rows, in the form that [`plain`] returns.

/// Names of columns with a time.
pub(in crate::cli) const TIMES: [&str; 14] = [
    "publishedat",
    "processedat",
    "sentat",
    "dispatchedat",
    "deliveredat",
    "relayedat",
    "forwardedat",
    "emittedat",
    "completiondate",
    "publishedon",
    "processedon",
    "processedonutc",
    "processeddate",
    "senton",
];

/// Names of columns with a boolean or a number.
pub(in crate::cli) const FLAGS: [&str; 8] =
    ["sent", "published", "processed", "dispatched", "delivered", "issent", "ispublished", "isprocessed"];

/// Names of columns with states whose meaning is defined by the program.
pub(in crate::cli) const STATES: [&str; 2] = ["status", "state"];

/// Reports whether the condition of a partial index, as PostgreSQL prints it, names the column. A poller that reads its unsent rows by
/// an index reads them by that column.
pub(in crate::cli) fn is_condition_on(condition: &str, column: &str) -> bool {
    let quoted = format!("\"{}\"", column.replace('"', "\"\""));
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut words = condition.split(|c: char| !is_word(c));
    condition.contains(&quoted) || words.any(|word| word == column)
}

/// Returns a column's name in the form in which names are compared: `publishedAt` and `published_at` are equal.
pub(in crate::cli) fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_of_an_index_names_whole_columns() {
        for (condition, column, expected) in [
            ("(sent_at IS NULL)", "sent_at", true),
            ("(sent_at IS NULL)", "sent", false),
            ("((status)::text = 'NEW'::text)", "status", true),
            ("(\"sentAt\" IS NULL)", "sentAt", true),
            ("(\"sentAt\" IS NULL)", "sent", false),
        ] {
            assert_eq!(is_condition_on(condition, column), expected, "{condition} {column}");
        }
    }
}
