//! Interface of the two drivers.

use tokio_postgres::types::{FromSql, ToSql, Type};

use super::connection::Connection;
use super::error::DriverError;
#[cfg(feature = "sqlx")]
use super::sqlx_session;
use super::statements::Begin;
use super::tokio_session;

/// Parameter of a statement of the inbox. Its type is given, so that no driver has to query the server for it.
pub(crate) type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// Statement with its parameters.
pub(crate) type Query<'q> = (&'static str, &'q [Parameter<'q>]);

/// Connection of one of the drivers. The statements of the inbox exist once, and need only these operations of a driver.
#[derive(Debug)]
pub(super) enum Session {
    Tokio(tokio_session::Session),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx_session::Session),
}

/// Row of a result.
#[derive(Debug)]
pub(crate) enum Row {
    Tokio(tokio_postgres::Row),
    #[cfg(feature = "sqlx")]
    Sqlx(sqlx::postgres::PgRow),
}

impl Row {
    /// Returns the value of a column.
    pub(crate) fn get<'r, T: FromSql<'r>>(&'r self, index: usize) -> Result<T, DriverError> {
        match self {
            Self::Tokio(row) => Ok(row.try_get(index)?),
            #[cfg(feature = "sqlx")]
            Self::Sqlx(row) => sqlx_session::get(row, index),
        }
    }
}

impl Connection {
    /// Runs statements without parameters and without a result.
    pub(crate) async fn batch(&self, sql: &str) -> Result<(), DriverError> {
        match &self.session {
            Session::Tokio(session) => session.batch(sql).await,
            #[cfg(feature = "sqlx")]
            Session::Sqlx(session) => session.batch(sql).await,
        }
    }

    /// Runs one statement, which is prepared once for each connection.
    pub(crate) async fn query(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, DriverError> {
        match &self.session {
            Session::Tokio(session) => session.query(sql, parameters).await,
            #[cfg(feature = "sqlx")]
            Session::Sqlx(session) => session.query(sql, parameters).await,
        }
    }

    /// Runs one statement that returns one row, and returns that row.
    pub(crate) async fn query_one(
        &self,
        sql: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Row, DriverError> {
        self.query(sql, parameters).await?.pop().ok_or(DriverError::NoRow)
    }

    /// Returns the rows of the caller's query as JSON.
    pub(crate) async fn rows_as_json(&self, sql: &str) -> Result<String, DriverError> {
        let sql = format!("SELECT coalesce(json_agg(row)::text, '[]') FROM ({sql}) AS row");
        let rows = self.query_once(&sql).await?;
        rows.first().ok_or(DriverError::NoRow)?.get(0)
    }

    /// Runs a statement without preparing it.
    pub(super) async fn query_once(&self, sql: &str) -> Result<Vec<Row>, DriverError> {
        match &self.session {
            Session::Tokio(session) => session.query_once(sql).await,
            #[cfg(feature = "sqlx")]
            Session::Sqlx(session) => session.query_once(sql.to_owned()).await,
        }
    }

    /// Begins a transaction, then runs these queries, in one round trip if the driver supports that. The queries must do nothing if a
    /// statement before them has failed.
    pub(super) async fn begin_and_queries<const N: usize>(
        &self,
        begin: Begin,
        queries: [Query<'_>; N],
    ) -> Result<[Vec<Row>; N], DriverError> {
        let begin = Begin { connection: self.number, ..begin };
        match &self.session {
            Session::Tokio(session) => session.begin_and_queries(begin, queries).await,
            #[cfg(feature = "sqlx")]
            Session::Sqlx(session) => session.begin_and_queries(begin, queries).await,
        }
    }
}
