use postgres_protocol::escape::escape_identifier;

/// So many tables are named.
const NAMED_MAX: usize = 5;

/// Captured tables that have come since the start and that the publication has not got.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpublished {
    pub(super) publication: String,
    /// As SQL wants their names.
    pub(super) tables: Vec<String>,
}

impl Unpublished {
    /// What is wrong, in one line; `None` when there are none.
    pub(crate) fn warning(&self) -> Option<String> {
        let (first, more) = self.tables.split_at_checked(NAMED_MAX).unwrap_or((&self.tables, &[]));
        let named = Some(first).filter(|tables| !tables.is_empty())?.join(", ");
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let publication = &self.publication;
        Some(format!(
            "new tables are captured and not in publication \"{publication}\": no row of {named}{more} is sent"
        ))
    }

    /// The same, with its cure.
    pub(super) fn warning_and_cure(&self) -> Option<String> {
        self.warning().map(|warning| format!("{warning}; to fix: {}", self.cure()))
    }

    /// Rows that were written before it are not in the stream either.
    pub(crate) fn cure(&self) -> String {
        let (publication, tables) = (escape_identifier(&self.publication), self.tables.join(", "));
        format!(
            "ALTER PUBLICATION {publication} ADD TABLE {tables}; rows that are there already are sent by a signal execute-snapshot"
        )
    }
}
