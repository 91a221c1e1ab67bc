//! Errors of captured rows that cannot be sent.

use crate::error::{Diagnose, Diagnosis, Exit};
use crate::outbox::BindError;
use crate::postgres::{self, Storage, TableVersion};

/// Reasons why rows that are captured, or that may be, cannot be sent. Each ends the relay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The stream describes a captured table in a way that the router cannot use.
    #[error(
        "rows of table {table} cannot be sent: the router cannot use the table as the stream describes \
             it"
    )]
    Unusable {
        /// `schema.table`, as it was captured.
        table: String,
        /// Present state of a table whose description in the stream is unusable.
        present: PresentTable,
        /// Missing column or type.
        #[source]
        source: BindError,
    },
    /// A table that was dropped or detached may have been a partition of captured tables.
    #[error(
        "rows of table {table} may belong to {candidates}: the table was dropped, detached or taken out of \
         the publication before its rows were read, and it is no longer in the catalog"
    )]
    Unknown {
        /// `schema.table`, as the stream names it.
        table: String,
        /// The captured tables that it may have been a partition of, separated by commas.
        candidates: String,
    },
}

/// Present state of a table whose description in the stream is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresentTable {
    /// Today's table would do: these rows were written before it was altered, or the publication does not send all of it.
    Usable,
    /// Today's table would not do either.
    Unusable,
}

impl Diagnose for CaptureError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::definite(Exit::Precondition).with_fix(match self {
            Self::Unusable { table, present, source } => {
                let columns = source.fix().map_or_else(String::new, |fix| format!("{fix}\n"));
                format!("{columns}{}\n{}", present.explained(), exclusion_fix(table))
            }
            Self::Unknown { table, .. } => {
                format!(
                    "to send its rows: add {} to table.include.list\n{}",
                    pattern(table),
                    exclusion_fix(table)
                )
            }
        })
    }
}

impl PresentTable {
    const fn explained(self) -> &'static str {
        match self {
            Self::Usable => {
                "the table has this column today: the rows were written before the table was altered, or \
                 the publication leaves the column out (a column list, a generated column). If the rows are \
                 older than the column: until they are sent, name only columns that they have"
            }
            Self::Unusable => "the table was altered: undo that, or name the columns that it has now",
        }
    }
}

fn exclusion_fix(table: &str) -> String {
    format!("to lose these rows on purpose: add {} to table.exclude.list", pattern(table))
}

/// Returns a list entry that matches this table only.
pub(in crate::relay) fn pattern(table: &str) -> String {
    fancy_regex::escape(table).into_owned()
}

/// Returns the error for a captured table, or a partition of one, whose rows logical decoding never reads.
pub(crate) fn not_in_the_wal(table: &TableVersion) -> postgres::Error {
    let (shown, quoted) = (table.full_name(), table.quoted());
    match table.storage {
        Storage::Foreign => postgres::Error::Precondition {
            problem: format!(
                "{shown}, a partition of a captured table, is a foreign table: its rows never reach the WAL of this server"
            ),
            fix: format!(
                "ALTER TABLE {} DETACH PARTITION {quoted};\nits rows must be sent from the server that has \
                 them",
                table.parent.as_deref().unwrap_or_default()
            ),
        },
        // To make it a logged one again does not bring its rows into the stream.
        Storage::Logged | Storage::Unlogged => postgres::Error::Unpublished {
            problem: format!("table {shown} is unlogged: its rows never reach the WAL"),
            fix: format!(
                "ALTER TABLE {quoted} SET LOGGED;\nrows that it already has are not in the stream: start \
                 once with -X snapshot.mode=always to send all rows of the table"
            ),
        },
    }
}
