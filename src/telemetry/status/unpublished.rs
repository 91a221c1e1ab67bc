//! Captured tables that are missing in the publication.

use postgres_protocol::escape::escape_identifier;

/// Most tables that are named.
const NAMED_MAX: usize = 5;

/// Captured tables that have come since the start and whose rows do not come to the stream. Tables are named as SQL wants it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unpublished {
    pub(crate) publication: String,
    /// The publication has not got them.
    pub(crate) tables: Vec<String>,
    /// Tables whose rows are not in the WAL.
    pub(crate) unlogged: Vec<String>,
    /// Tables that are not captured and inherit from captured ones (INHERITS): a query of these shows their rows.
    pub(crate) inheriting: Vec<String>,
}

impl Unpublished {
    /// Creates it without tables, for the publication of this name.
    pub(crate) fn none(publication: &str) -> Self {
        Self { publication: publication.to_owned(), ..Self::default() }
    }

    /// Returns the problems, each in one line, and its fix.
    pub(crate) fn warnings(&self) -> Vec<(String, String)> {
        self.not_published().into_iter().chain(self.not_logged()).chain(self.not_captured()).collect()
    }

    fn not_published(&self) -> Option<(String, String)> {
        let publication = &self.publication;
        let named = named(&self.tables)?;
        let (quoted, tables) = (escape_identifier(publication), self.tables.join(", "));
        Some((
            format!(
                "new tables are captured and not in publication \"{publication}\": no row of {named} is sent"
            ),
            format!("ALTER PUBLICATION {quoted} ADD TABLE {tables}; {THERE_ALREADY}"),
        ))
    }

    fn not_captured(&self) -> Option<(String, String)> {
        let (named, tables) = (named(&self.inheriting)?, self.inheriting.join(", "));
        let publication = escape_identifier(&self.publication);
        Some((
            format!(
                "tables inherit from captured ones and are not captured themselves: no row of {named} is sent"
            ),
            format!(
                "add {tables} to table.include.list, and ALTER PUBLICATION {publication} ADD TABLE {tables}; partitions need neither"
            ),
        ))
    }

    fn not_logged(&self) -> Option<(String, String)> {
        let named = named(&self.unlogged)?;
        let statements: Vec<_> =
            self.unlogged.iter().map(|table| format!("ALTER TABLE {table} SET LOGGED")).collect();
        Some((
            format!(
                "tables are captured and unlogged, so that no row is in the WAL: no row of {named} is sent"
            ),
            format!("{}; {THERE_ALREADY}", statements.join("; ")),
        ))
    }
}

/// Rows that were written before the fix are not in the stream either.
const THERE_ALREADY: &str = "rows that are there already are sent by a signal execute-snapshot";

fn named(tables: &[String]) -> Option<String> {
    let (first, more) = tables.split_at_checked(NAMED_MAX).unwrap_or((tables, &[]));
    let named = Some(first).filter(|tables| !tables.is_empty())?.join(", ");
    Some(match more.len() {
        0 => named,
        more => format!("{named} and {more} more"),
    })
}
