use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::error::DriverError;
use super::session::{Parameter, Query, Row};
use super::statements::{Begin, CONNECTION_LOCK_CLASS, LOCK, LOCK_CLASS};

/// The transaction in which an event is remembered as done. What a handler does in it is committed with that, or not at
/// all.
///
/// It is used like a [`Client`]. The inbox commits it, or rolls it back when the handler fails; a handler does neither. It
/// must not be kept.
#[derive(Debug, Clone)]
pub struct Transaction {
    client: Arc<Client>,
    prepared: Arc<Prepared>,
}

impl Transaction {
    /// Prepares a statement, once for each connection of the inbox. The next events that it is used for need no round trip for
    /// it.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not take it.
    pub async fn prepare_cached(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        self.prepared.get(&self.client, sql, &[]).await
    }
}

impl Deref for Transaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// A connection of tokio-postgres, and the task that drives it, which ends with this value.
#[derive(Debug)]
pub(crate) struct Session {
    client: Arc<Client>,
    prepared: Arc<Prepared>,
    _driver: JoinSet<()>,
}

/// The statements of a connection. Their texts are literals of the program, so there are only so many.
#[derive(Debug, Default)]
struct Prepared {
    statements: Mutex<HashMap<&'static str, Statement>>,
}

impl Prepared {
    async fn get(
        &self,
        client: &Client,
        sql: &'static str,
        types: &[Type],
    ) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned();
        if let Some(statement) = known {
            return Ok(statement);
        }
        let statement = client.prepare_typed(sql, types).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(sql, statement.clone());
        Ok(statement)
    }
}

impl Session {
    pub(super) fn new(client: Client, driver: JoinSet<()>) -> Self {
        Self { client: Arc::new(client), prepared: Arc::default(), _driver: driver }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), DriverError> {
        Ok(self.client.batch_execute(sql).await?)
    }

    pub(super) async fn query(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DriverError> {
        let statement = self.prepare(sql, parameters).await?;
        let rows = self.client.query(&statement, &values(parameters)).await?;
        Ok(rows.into_iter().map(Row::Tokio).collect())
    }

    /// One statement that is not prepared.
    pub(super) async fn query_once(&self, sql: &str) -> Result<Vec<Row>, DriverError> {
        let rows = self.client.query_typed(sql, &[]).await?;
        Ok(rows.into_iter().map(Row::Tokio).collect())
    }

    /// All are sent before the first is answered.
    pub(super) async fn begin_and_queries<const N: usize>(
        &self,
        begin: Begin,
        queries: [Query<'_>; N],
    ) -> Result<[Vec<Row>; N], DriverError> {
        let lock: [Parameter<'_>; 5] = [
            (&LOCK_CLASS, Type::INT4),
            (&begin.partition, Type::INT4),
            (&begin.epoch, Type::INT8),
            (&CONNECTION_LOCK_CLASS, Type::INT4),
            (&begin.connection, Type::INT4),
        ];
        let lock: Query<'_> = (LOCK, &lock);
        for (sql, parameters) in std::iter::once(lock).chain(queries) {
            self.prepare(sql, parameters).await?;
        }
        let text = begin.without_lock();
        let queries = queries.map(|(sql, parameters)| self.query(sql, parameters));
        let (begun, locked, answers) =
            tokio::join!(self.batch(&text), self.query(lock.0, lock.1), join_all(queries));
        begun?;
        locked?;
        let answers: Vec<Vec<Row>> = answers.into_iter().collect::<Result<_, _>>()?;
        answers.try_into().map_err(|_| DriverError::NoRow)
    }

    pub(super) fn lease(&self) -> Transaction {
        Transaction { client: Arc::clone(&self.client), prepared: Arc::clone(&self.prepared) }
    }

    pub(super) fn is_given_back(&self) -> bool {
        Arc::strong_count(&self.client) == 1
    }

    pub(super) fn is_usable(&self) -> bool {
        !self.client.is_closed()
    }

    async fn prepare(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Statement, DriverError> {
        let types: Vec<Type> = parameters.iter().map(|(_, of)| of.clone()).collect();
        Ok(self.prepared.get(&self.client, sql, &types).await?)
    }
}

fn values<'p>(parameters: &[Parameter<'p>]) -> Vec<&'p (dyn ToSql + Sync)> {
    parameters.iter().map(|(value, _)| *value).collect()
}
