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

/// Whether the server, the connection or the moment is to blame, and not what was asked.
pub(crate) fn is_transient(error: &tokio_postgres::Error) -> bool {
    let Some(state) = error.code() else {
        return error.is_closed() || error.source().is_some_and(|source| source.is::<std::io::Error>());
    };
    let moments = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
    ];
    // Connections, resources, an operator's intervention.
    moments.contains(state) || ["08", "53", "57"].iter().any(|class| state.code().starts_with(class))
}
