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

/// The transaction in which an event is remembered as done, with sqlx. What a handler does in it is committed with that, or
/// not at all.
///
/// It is used like a [`PgConnection`]: `sqlx::query("…").execute(&mut *transaction)`. The inbox commits it, or rolls it back
/// when the handler fails. A handler can do neither: `transaction.begin()` makes a savepoint, which its `commit()` releases and
/// its `rollback()` or its drop undoes. It must not be kept.
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

/// A connection of sqlx. It is locked while a handler has it.
#[derive(Debug)]
pub(super) struct Session {
    connection: Arc<Mutex<PgConnection>>,
}

impl Session {
    /// The inbox begins and ends its transactions by statements of its own. sqlx must believe all the time that it is in one:
    /// then a handler's `begin()` makes a savepoint, and what ends that leaves the transaction open.
    pub(super) async fn new(mut connection: PgConnection) -> Result<Self, sqlx::Error> {
        // Not dropped: that would roll it back, and sqlx would count it as ended.
        std::mem::forget(connection.begin_with("BEGIN").await?);
        sqlx::raw_sql("COMMIT").execute(&mut connection).await?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)) })
    }

    pub(super) async fn batch(&self, sql: &str) -> Result<(), DriverError> {
        // Numbers only are put into the inbox's texts.
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

    /// One after the other: this driver has no pipeline.
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

    /// One statement of somebody's.
    pub(super) async fn query_once(&self, sql: String) -> Result<Vec<Row>, DriverError> {
        let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
        let rows = query.fetch_all(&mut *self.connection.lock().await).await?;
        Ok(rows.into_iter().map(Row::Sqlx).collect())
    }

    /// Nothing while another handler has it.
    pub(super) fn lease(&self) -> Option<SqlxTransaction> {
        let connection = Arc::clone(&self.connection).try_lock_owned().ok()?;
        Some(SqlxTransaction { connection })
    }

    /// Reports whether no handler uses the connection, and none has ended what sqlx believes to be a transaction.
    pub(super) fn is_given_back(&self) -> bool {
        let connection = self.connection.try_lock();
        connection.is_ok_and(|connection| connection.is_in_transaction())
    }
}

/// One statement in a handler's transaction.
pub(super) async fn write(
    connection: &mut PgConnection,
    sql: &str,
    parameters: &[Parameter<'_>],
) -> Result<(), DriverError> {
    // Names of tables and columns only are put into it, as quoted identifiers.
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

/// The value of a column.
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

/// A parameter, written as tokio-postgres writes it: the inbox has one list of statements for both drivers.
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
    /// Never asked: [`Raw::produces`] tells.
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(0))
    }
}
