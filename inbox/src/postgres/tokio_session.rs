//! The driver tokio-postgres.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::task::JoinSet;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Statement};

use super::error::DriverError;
use super::session::{Parameter, Query, Row};
use super::statements::{Begin, CONNECTION_LOCK_CLASS, LOCK};

/// Transaction in which an event is remembered as done. The changes of a handler in it are committed with that, or not at all.
///
/// It is used like a [`Client`]. The inbox commits it, or rolls it back when the handler fails. A handler does neither: its COMMIT fails,
/// and after its ROLLBACK the event becomes a dead letter. The handler must drop the transaction before it returns.
#[derive(Debug, Clone)]
pub struct Transaction {
    client: Arc<Client>,
    prepared: Arc<Prepared>,
}

/// Part of a handler's transaction that can be undone alone, such as a statement that may fail. It is used like the [`Transaction`]. A
/// savepoint that is dropped is undone.
#[derive(Debug)]
pub struct Savepoint {
    transaction: Transaction,
    name: String,
    is_open: bool,
}

impl Savepoint {
    /// Releases the savepoint. Its changes are committed with the transaction.
    ///
    /// # Errors
    ///
    /// When a statement in it has failed, and when PostgreSQL does not answer.
    pub async fn release(mut self) -> Result<(), tokio_postgres::Error> {
        self.transaction.batch_execute(&format!("RELEASE SAVEPOINT {}", self.name)).await?;
        self.is_open = false;
        Ok(())
    }

    /// Undoes the changes since the savepoint, also after a statement that failed.
    ///
    /// # Errors
    ///
    /// When PostgreSQL does not answer.
    pub async fn roll_back(mut self) -> Result<(), tokio_postgres::Error> {
        self.is_open = false;
        self.transaction.batch_execute(&self.undo()).await
    }

    fn undo(&self) -> String {
        format!("ROLLBACK TO SAVEPOINT {0}; RELEASE SAVEPOINT {0}", self.name)
    }
}

impl Deref for Savepoint {
    type Target = Transaction;

    fn deref(&self) -> &Transaction {
        &self.transaction
    }
}

impl Drop for Savepoint {
    fn drop(&mut self) {
        if self.is_open {
            // The statement is sent when it is polled for the first time; its result is ignored.
            drop(self.transaction.batch_execute(&self.undo()).now_or_never());
        }
    }
}

impl Transaction {
    /// Prepares a statement, once for each connection of the inbox. Later events on that connection need no round trip for it.
    ///
    /// # Errors
    ///
    /// When PostgreSQL refuses the statement.
    pub async fn prepare_cached(&self, sql: &'static str) -> Result<Statement, tokio_postgres::Error> {
        self.prepared.get(&self.client, sql, &[]).await
    }

    /// Begins a savepoint.
    ///
    /// ```no_run
    /// # use outboxd_inbox::Failure;
    /// # use outboxd_inbox::postgres::Transaction;
    /// # async fn handle(transaction: Transaction, id: &str) -> Result<(), Failure> {
    /// let audit = transaction.savepoint().await?;
    /// match audit.execute("INSERT INTO audit_log VALUES ($1)", &[&id]).await {
    ///     Ok(_) => audit.release().await?,
    ///     Err(error) => {
    ///         tracing::warn!(%error, "the audit log failed");
    ///         audit.roll_back().await?;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When a statement of the transaction has failed, and when PostgreSQL does not answer.
    pub async fn savepoint(&self) -> Result<Savepoint, tokio_postgres::Error> {
        let name = format!("outboxd_inbox_{:016x}", fastrand::u64(..));
        self.batch_execute(&format!("SAVEPOINT {name}")).await?;
        Ok(Savepoint { transaction: self.clone(), name, is_open: true })
    }
}

impl Deref for Transaction {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Connection of tokio-postgres, and the task that drives it, which ends with this value.
#[derive(Debug)]
pub(crate) struct Session {
    client: Arc<Client>,
    prepared: Arc<Prepared>,
    _driver: JoinSet<()>,
}

/// Prepared statements of a connection. Their texts are literals of the program, so their number is limited.
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

    /// Runs one statement that is not prepared.
    pub(super) async fn query_once(&self, sql: &str) -> Result<Vec<Row>, DriverError> {
        let rows = self.client.query_typed(sql, &[]).await?;
        Ok(rows.into_iter().map(Row::Tokio).collect())
    }

    /// Sends all statements before the first result arrives.
    pub(super) async fn begin_and_queries<const N: usize>(
        &self,
        begin: Begin,
        queries: [Query<'_>; N],
    ) -> Result<[Vec<Row>; N], DriverError> {
        let lock: [Parameter<'_>; 4] = [
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
