//! The driver sqlx.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::BytesMut;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgConnection, PgRow, PgTypeInfo, PgValueFormat};
use sqlx::{Arguments as _, AssertSqlSafe, Connection as _, Encode, Postgres, Row as _, ValueRef as _};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio_postgres::types::{FromSql, IsNull as Null, Type};

use super::error::DriverError;
use super::session::{Parameter, Query, Row};
use super::statements::Begin;

/// Transaction of sqlx in which an event is remembered as done. The changes of a handler in it are committed with that, or not at all.
///
/// It is used like a [`PgConnection`]: `sqlx::query("…").execute(&mut *transaction)`. The inbox commits it, or rolls it back when the
/// handler fails. A handler can do neither: `transaction.begin()` creates a savepoint, which its `commit()` releases and its `rollback()`
/// or its drop undoes. The handler must drop the transaction before it returns.
#[derive(Debug)]
pub struct SqlxTransaction {
    connection: OwnedMutexGuard<PgConnection>,
}

impl Deref for SqlxTransaction {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for SqlxTransaction {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Connection of sqlx. It is locked while a handler has it.
#[derive(Debug)]
pub(super) struct Session {
    connection: Arc<Mutex<PgConnection>>,
}

impl Session {
    /// Creates a session. The inbox begins and ends its transactions with its own statements, while sqlx has to count one transaction as
    /// open at all times: then a handler's `begin()` creates a savepoint, and the end of that leaves the transaction open.
    pub(super) async fn new(mut connection: PgConnection) -> Result<Self, sqlx::Error> {
        // The transaction is not dropped, which would roll it back, and sqlx would count it as ended.
        std::mem::forget(connection.begin_with("BEGIN").await?);
        sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), DriverError> {
        // Only numbers are inserted into the texts of the inbox.
        let sql = AssertSqlSafe(sql.to_owned());
        sqlx::raw_sql(sql).execute(&mut *self.connection.lock().await).await?;
        Ok(())
    }

    pub(super) async fn query(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DriverError> {
        let query = sqlx::query_with(sql, arguments(parameters)?);
        let rows = query.fetch_all(&mut *self.connection.lock().await).await?;
        Ok(rows.into_iter().map(Row::Sqlx).collect())
    }

    /// Runs the statements one after the other: this driver has no pipeline.
    pub(super) async fn begin_and_queries<const N: usize>(
        &self,
        begin: Begin,
        queries: [Query<'_>; N],
    ) -> Result<[Vec<Row>; N], DriverError> {
        self.batch(&begin.whole()).await?;
        let mut answers = Vec::with_capacity(N);
        for (sql, parameters) in queries {
            answers.push(self.query(sql, parameters).await?);
        }
        answers.try_into().map_err(|_| DriverError::NoRow)
    }

    /// Runs one statement that is not prepared.
    pub(super) async fn query_once(&self, sql: String) -> Result<Vec<Row>, DriverError> {
        let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let rows = query.fetch_all(&mut *self.connection.lock().await).await?;
        Ok(rows.into_iter().map(Row::Sqlx).collect())
    }

    /// Returns the transaction for a handler, or `None` while another handler has it.
    pub(super) fn lease(&self) -> Option<SqlxTransaction> {
        let connection = Arc::clone(&self.connection).try_lock_owned().ok()?;
        Some(SqlxTransaction { connection })
    }

    /// Reports whether no handler uses the connection, and none has ended the transaction that sqlx counts as open.
    pub(super) fn is_given_back(&self) -> bool {
        let connection = self.connection.try_lock();
        connection.is_ok_and(|connection| connection.is_in_transaction())
    }
}

/// Runs one statement in a handler's transaction.
pub(super) async fn write(
    connection: &mut PgConnection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<(), DriverError> {
    // Only names of tables and columns are inserted into it, as quoted identifiers.
    let sql = AssertSqlSafe(sql.to_owned());
    sqlx::query_with(sql, arguments(parameters)?).execute(connection).await?;
    Ok(())
}

fn arguments(parameters: &[Parameter<'_>]) -> Result<PgArguments, DriverError> {
    let mut arguments = PgArguments::default();
    for (value, of) in parameters {
        arguments.add(Raw { value: *value, of }).map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}

/// Returns the value of a column.
pub(super) fn get<'r, T: FromSql<'r>>(row: &'r PgRow, index: usize) -> Result<T, DriverError> {
    let value = row.try_get_raw(index)?;
    let decode =
        |error| DriverError::Sqlx(sqlx::Error::ColumnDecode { index: index.to_string(), source: error });
    if value.format() == PgValueFormat::Text {
        return Err(decode("it is text".into()));
    }
    let oid = value.type_info().oid().map(|oid| oid.0).unwrap_or_default();
    let of = Type::from_oid(oid).unwrap_or(Type::UNKNOWN);
    let bytes = if value.is_null() { None } else { Some(value.as_bytes().map_err(decode)?) };
    T::from_sql_nullable(&of, bytes).map_err(decode)
}

/// Parameter, encoded by tokio-postgres: the inbox has one list of statements for both drivers.
struct Raw<'p> {
    value: &'p (dyn tokio_postgres::types::ToSql + Sync),
    of: &'p Type,
}

impl Encode<'_, Postgres> for Raw<'_> {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let mut bytes = BytesMut::new();
        if let Null::Yes = self.value.to_sql_checked(self.of, &mut bytes)? {
            return Ok(IsNull::Yes);
        }
        buffer.extend_from_slice(&bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.of.oid())))
    }
}

impl sqlx::Type<Postgres> for Raw<'_> {
    /// Returns a placeholder that is never used: [`Raw::produces`] returns the type.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}
