use std::error::Error as _;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;

/// What goes wrong between the inbox and PostgreSQL.
#[derive(Debug, Error)]
pub enum Error {
    /// There is no connection.
    #[error("cannot connect to PostgreSQL")]
    Connect(#[source] DriverError),
    /// There is no connection in time.
    #[error("PostgreSQL does not answer within {} s", .within.as_secs())]
    ConnectTimeout {
        /// How long it was waited for.
        within: Duration,
    },
    /// A statement of the inbox failed.
    #[error("PostgreSQL cannot {doing}")]
    Statement {
        /// What the statement was for.
        doing: &'static str,
        /// What PostgreSQL or the connection says.
        #[source]
        source: DriverError,
    },
    /// The handler has ended and something still holds its transaction.
    #[error("the handler has kept its transaction")]
    TransactionKept,
}

impl Error {
    pub(crate) fn of<E: Into<DriverError>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Statement { doing, source: source.into() }
    }

    /// Whether the same may succeed later without anything being changed.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::ConnectTimeout { .. } => true,
            Self::Statement { source, .. } => source.is_transient(),
            Self::TransactionKept => false,
        }
    }
}

/// What a driver says.
#[derive(Debug, Error)]
pub enum DriverError {
    /// tokio-postgres.
    #[error(transparent)]
    Tokio(#[from] tokio_postgres::Error),
    /// sqlx.
    #[cfg(feature = "sqlx")]
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
    /// A statement that always answers with a row did not.
    #[error("there is no row")]
    NoRow,
    /// It is another one.
    #[error("the connection is another driver's")]
    Other,
}

impl DriverError {
    /// PostgreSQL's code of the error.
    pub(crate) fn code(&self) -> Option<String> {
        match self {
            Self::Tokio(error) => error.code().map(|state| state.code().to_owned()),
            #[cfg(feature = "sqlx")]
            Self::Sqlx(error) => error.as_database_error()?.code().map(|code| code.into_owned()),
            Self::NoRow | Self::Other => None,
        }
    }

    fn is_transient(&self) -> bool {
        match self {
            Self::Tokio(error) => is_transient(error),
            #[cfg(feature = "sqlx")]
            Self::Sqlx(error) => is_transient(error),
            Self::NoRow | Self::Other => false,
        }
    }
}

/// Whether it is an error of PostgreSQL's for which the server or the connection is to blame, and not what was asked.
pub(crate) fn is_transient(error: &(dyn std::error::Error + 'static)) -> bool {
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return is_transient_in_sqlx(error);
    }
    let Some(error) = error.downcast_ref::<tokio_postgres::Error>() else { return false };
    match error.code() {
        Some(state) => is_of_the_server(state.code()),
        None => error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>()),
    }
}

#[cfg(feature = "sqlx")]
fn is_transient_in_sqlx(error: &sqlx::Error) -> bool {
    use sqlx::Error as Sqlx;
    match error {
        Sqlx::Database(error) => error.code().is_some_and(|code| is_of_the_server(&code)),
        Sqlx::Io(_) | Sqlx::Tls(_) | Sqlx::PoolTimedOut | Sqlx::PoolClosed | Sqlx::WorkerCrashed => true,
        _ => false,
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
