//! Judgement of a run of the harness.

use thiserror::Error;

use crate::event::IdError;
use crate::postgres::{self, Connection, DriverError};

/// Error in a handler, or in its test.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The effect differs from the undisturbed run.
    #[error(
        "the effect is another one after this: {schedule}\nin peace: {}\nnow:      {}",
        .expected.join("; "),
        .observed.join("; ")
    )]
    Different {
        /// Observations of the undisturbed run.
        expected: Vec<String>,
        /// Observations of the failing run.
        observed: Vec<String>,
        /// Schedule of the failing run.
        schedule: String,
    },
    /// The handler fails in the undisturbed run, or because it was interrupted before.
    #[error("the handler fails at the event {id}, after this: {schedule}: {error}")]
    Failed {
        /// Id of the event.
        id: String,
        /// Schedule before the failure.
        schedule: String,
        /// Error of the handler.
        error: String,
    },
    /// An event has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A statement of the test cannot be executed.
    #[error("the statement cannot be carried out: {sql}")]
    Statement {
        /// SQL text of the statement.
        sql: String,
        /// Error of PostgreSQL.
        #[source]
        source: DriverError,
    },
    /// PostgreSQL, or the inbox's tables in it.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// Another consumer took the harness's partition.
    #[error("another consumer has the harness's name")]
    Fenced,
}

/// Start of a run, and the observations at its end.
#[derive(Default)]
pub(super) struct Start {
    pub(super) sql: String,
    pub(super) functions: Vec<Box<dyn Fn() + Send + Sync>>,
    pub(super) queries: Vec<String>,
    pub(super) observers: Vec<Box<dyn Fn() -> String + Send + Sync>>,
}

impl Start {
    pub(super) async fn reset(&self, connection: &Connection) -> Result<(), HarnessError> {
        self.functions.iter().for_each(|reset| reset());
        let failed = |source| HarnessError::Statement { sql: self.sql.clone(), source };
        connection.batch(&self.sql).await.map_err(failed)
    }

    /// Returns the effect as text.
    pub(super) async fn observe(&self, connection: &Connection) -> Result<Vec<String>, HarnessError> {
        let mut observed = Vec::new();
        for sql in &self.queries {
            let rows = connection.rows_as_json(sql).await;
            observed.push(rows.map_err(|source| HarnessError::Statement { sql: sql.clone(), source })?);
        }
        observed.extend(self.observers.iter().map(|observe| observe()));
        Ok(observed)
    }
}
