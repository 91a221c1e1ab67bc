//! Errors of PostgreSQL.

use std::error::Error as _;
use std::time::Duration;

use thiserror::Error;
use tokio_postgres::error::SqlState;

use super::statements::{IN_FAILED_TRANSACTION, NO_SUCH_CURSOR};

/// Error of the inbox's work with PostgreSQL.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be opened.
    #[error("cannot connect to PostgreSQL")]
    Connect(#[source] DriverError),
    /// No connection could be opened in time.
    #[error("PostgreSQL does not answer within {} s", .within.as_secs())]
    ConnectTimeout {
        /// Maximum time to open a connection.
        within: Duration,
    },
    /// A statement of the inbox failed.
    #[error("PostgreSQL cannot {doing}")]
    Statement {
        /// Purpose of the statement.
        doing: &'static str,
        /// Cause, as returned by PostgreSQL or the connection.
        #[source]
        source: DriverError,
    },
    /// The inbox's tables do not exist, or are those of an older version.
    #[error(
        "the tables of the inbox are missing or of an older version ({}): call Connector::create_tables as a role that may create \
         tables, or run outboxd_inbox::postgres::SCHEMA",
        .found.map_or_else(|| "none".to_owned(), |found| found.to_string())
    )]
    OldTables {
        /// Version that was found.
        found: Option<i32>,
    },
    /// A newer version of this crate has changed the tables.
    #[error(
        "the tables of the inbox have version {found}, and this version of outboxd-inbox knows them up to {}",
        super::VERSION
    )]
    NewerTables {
        /// Version that was found.
        found: i32,
    },
    /// A table has a name that the inbox uses, but other columns.
    #[error(
        "a table with a name of the inbox's has other columns: rename it, or set search_path to a schema of the service's own"
    )]
    OtherTables {
        /// Error that names the missing column or table.
        #[source]
        source: DriverError,
    },
    /// The handler has returned while its transaction is still in use.
    #[error("the handler has returned without giving back its transaction")]
    TransactionKept,
    /// A statement of the handler failed and the handler returned `Ok`. PostgreSQL has undone all changes.
    #[error(
        "the handler returned Ok although one of its statements had failed, so PostgreSQL undid all of its changes: return \
         the error, or run an optional statement in a savepoint"
    )]
    StatementFailed,
    /// The handler has not returned in time.
    #[error("the handler has not returned within {} s", .within.as_secs())]
    HandlerTimeout {
        /// Time limit of the handler.
        within: Duration,
    },
    /// The handler has committed or rolled back the inbox's transaction.
    #[error(
        "the handler has ended the transaction of the inbox: use a savepoint in the place of BEGIN, COMMIT and ROLLBACK"
    )]
    TransactionEnded,
}

impl Error {
    pub(crate) fn of<E: Into<DriverError>>(doing: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Statement { doing, source: source.into() }
    }

    /// Converts an error of closing the fence of a transaction.
    pub(super) fn of_fence(doing: &'static str) -> impl FnOnce(DriverError) -> Self {
        move |source| match source.code().as_deref() {
            Some(IN_FAILED_TRANSACTION) => Self::StatementFailed,
            Some(NO_SUCH_CURSOR) => Self::TransactionEnded,
            _ => Self::Statement { doing, source },
        }
    }

    /// Reports whether the same call may succeed later without any change.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::ConnectTimeout { .. } => true,
            Self::Statement { source, .. } => source.is_transient(),
            Self::OldTables { .. } | Self::NewerTables { .. } | Self::OtherTables { .. } => false,
            Self::TransactionKept | Self::StatementFailed | Self::TransactionEnded => false,
            Self::HandlerTimeout { .. } => false,
        }
    }

    /// Reports whether PostgreSQL has ended the transaction to resolve a conflict with another one.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Statement { source, .. } if source.code().is_some_and(|code| is_of_a_conflict(&code)))
    }

    /// Reports whether the database's encoding has no such character as one of the text that was to be stored.
    pub(crate) fn is_of_the_encoding(&self) -> bool {
        let state = SqlState::UNTRANSLATABLE_CHARACTER;
        matches!(self, Self::Statement { source, .. } if source.code().as_deref() == Some(state.code()))
    }

    /// Reports whether a statement of the inbox's own cannot work with the database as it is: a missing table, a missing right, a changed
    /// column. Such an error is not caused by an event.
    pub(crate) fn is_of_the_setup(&self) -> bool {
        match self {
            Self::OldTables { .. } | Self::NewerTables { .. } | Self::OtherTables { .. } => true,
            Self::Statement { doing, source } if *doing != COMMIT => {
                source.code().is_some_and(|code| SETUP.iter().any(|class| code.starts_with(class)))
            }
            _ => false,
        }
    }
}

/// Purpose of the last statement of a transaction. Its errors may come from constraints that are checked at the end.
pub(super) const COMMIT: &str = "commit";

/// Classes of SQLSTATE: an unsupported feature, such as a plan whose table has changed; missing rights; a schema, a function, a table or a
/// column that does not exist.
const SETUP: [&str; 4] = ["0A", "28", "3F", "42"];

/// Error of a driver.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// tokio-postgres.
    #[error(transparent)]
    Tokio(#[from] tokio_postgres::Error),
    /// sqlx.
    #[cfg(feature = "sqlx")]
    #[error(transparent)]
    Sqlx(#[from] sqlx::Error),
    /// A statement that always returns a row returned none.
    #[error("there is no row")]
    NoRow,
    /// The connection belongs to the other driver.
    #[error("the connection is another driver's")]
    Other,
}

impl DriverError {
    /// Returns the SQLSTATE of the error.
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

/// Reports whether it is an error of PostgreSQL's that is caused by the server or the connection, and not by the statement.
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

/// Reports whether an error of a handler means that PostgreSQL has ended the transaction to resolve a conflict.
pub(crate) fn is_conflict(error: &(dyn std::error::Error + 'static)) -> bool {
    code(error).is_some_and(|code| is_of_a_conflict(&code))
}

/// Reports whether an error means that nothing can be written.
pub(crate) fn is_read_only(error: &(dyn std::error::Error + 'static)) -> bool {
    code(error).is_some_and(|code| code == SqlState::READ_ONLY_SQL_TRANSACTION.code())
}

/// Returns the SQLSTATE of an error of one of the drivers, or of the server's answer inside of one: an error that wraps the driver's, such
/// as anyhow's, may have only that answer as its source.
fn code(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return error.as_database_error()?.code().map(|code| code.into_owned());
    }
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<Box<dyn sqlx::error::DatabaseError>>() {
        return error.code().map(|code| code.into_owned());
    }
    if let Some(error) = error.downcast_ref::<tokio_postgres::error::DbError>() {
        return Some(error.code().code().to_owned());
    }
    let error = error.downcast_ref::<tokio_postgres::Error>()?;
    Some(error.code()?.code().to_owned())
}

/// Reports whether a SQLSTATE is that of a serialization failure or a deadlock.
fn is_of_a_conflict(state: &str) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED]
        .iter()
        .any(|known| known.code() == state)
}

/// Reports whether a SQLSTATE means that the server refuses all statements. States that an event itself can cause are not among them, such
/// as a timeout of a statement or a deadlock: an event that always causes one must become a dead letter at some time.
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
