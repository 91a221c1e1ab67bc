use thiserror::Error;

use crate::event::IdError;
use crate::postgres::{self, Connection, DriverError};

/// What is wrong with a handler, or with its test.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The effect is not the same when something happens on the way.
    #[error(
        "the effect is another one after this: {schedule}\nin peace: {}\nnow:      {}",
        .expected.join("; "),
        .observed.join("; ")
    )]
    Different {
        /// What was observed when nothing happened.
        expected: Vec<String>,
        /// What was observed this time.
        observed: Vec<String>,
        /// What happened.
        schedule: String,
    },
    /// The handler fails although nothing is wrong, or fails because it was interrupted before.
    #[error("the handler fails at the event {id}, after this: {schedule}: {error}")]
    Failed {
        /// The event's id.
        id: String,
        /// What happened before.
        schedule: String,
        /// What the handler says.
        error: String,
    },
    /// An event has no id.
    #[error(transparent)]
    Id(#[from] IdError),
    /// A statement of the test.
    #[error("the statement cannot be carried out: {sql}")]
    Statement {
        /// The statement.
        sql: String,
        /// What PostgreSQL says.
        #[source]
        source: DriverError,
    },
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// Another consumer took the harness's partition.
    #[error("another consumer has the harness's name")]
    Fenced,
}

/// How a run begins and what is looked at when it is over.
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

    /// The effect, as text.
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
