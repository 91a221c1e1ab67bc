use std::error::Error as _;

use thiserror::Error;
use tokio_postgres::error::SqlState;

/// What goes wrong between the inbox and PostgreSQL.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no connection.
    #[error("cannot connect to PostgreSQL")]
    Connect(#[source] tokio_postgres::Error),
    /// A statement of the inbox failed.
    #[error("PostgreSQL cannot {doing}")]
    Statement {
        /// What the statement was for.
        doing: &'static str,
        /// What PostgreSQL or the connection says.
        #[source]
        source: tokio_postgres::Error,
    },
    /// The handler has ended and something still holds its transaction.
    #[error("the handler has kept its transaction")]
    TransactionKept,
}

impl Error {
    pub(crate) fn of(doing: &'static str) -> impl FnOnce(tokio_postgres::Error) -> Self {
        move |source| Self::Statement { doing, source }
    }

    /// Whether the same may succeed later without anything being changed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) => true,
            Self::Statement { source, .. } => is_transient(source),
            Self::TransactionKept => false,
        }
    }
}

/// Whether the server or the connection is to blame, and not what was asked.
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(state) => is_of_the_server(state.code()),
        None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
    }
}

/// States in which the server refuses anything. What an event itself can cause is not among them, such as a statement that
/// takes too long or a deadlock: an event that always does must be given up some time.
fn is_of_the_server(state: &str) -> bool {
    let states = [
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::DISK_FULL,
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
    ];
    state.starts_with("08") || states.iter().any(|known| known.code() == state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_can_cause_is_no_fault_of_the_server() {
        for state in ["08006", "53300", "57P01", "57P02", "57P03", "25006"] {
            assert!(is_of_the_server(state), "{state}");
        }
        // A timeout of a statement, a deadlock, a conflict, a lock, idle for too long, a constraint.
        for state in ["57014", "40P01", "40001", "55P03", "25P03", "23505"] {
            assert!(!is_of_the_server(state), "{state}");
        }
    }
}
