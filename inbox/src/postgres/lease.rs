//! Transactions that handlers receive.

use super::connection::Connection;
use super::error::DriverError;
use super::session::{Parameter, Session};
#[cfg(feature = "sqlx")]
use super::sqlx_session::SqlxTransaction;
use super::tokio_session::Transaction;
use sealed::Leased;

/// Transaction that handlers receive: [`Transaction`], or `SqlxTransaction` with the feature `sqlx`.
pub trait HandlerTransaction: Leased + Send + 'static {}

pub(crate) mod sealed {
    use super::{Connection, DriverError, Parameter};

    pub trait Leased: Sized {
        /// Returns the transaction of the connection. Returns `None` for a connection of another driver, and with sqlx while another
        /// handler has the transaction.
        fn lease(connection: &Connection) -> Option<Self>;

        /// Runs one statement of another part of the inbox in the transaction.
        fn write(
            &mut self,
            sql: &str,
            parameters: &[Parameter<'_>],
        ) -> impl Future<Output = Result<(), DriverError>> + Send;
    }
}

impl HandlerTransaction for Transaction {}

impl Leased for Transaction {
    fn lease(connection: &Connection) -> Option<Self> {
        match &connection.session {
            Session::Tokio(session) => Some(session.lease()),
            #[cfg(feature = "sqlx")]
            Session::Sqlx(_) => None,
        }
    }

    async fn write(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), DriverError> {
        self.execute_typed(sql, parameters).await?;
        Ok(())
    }
}

#[cfg(feature = "sqlx")]
impl HandlerTransaction for SqlxTransaction {}

#[cfg(feature = "sqlx")]
impl Leased for SqlxTransaction {
    fn lease(connection: &Connection) -> Option<Self> {
        match &connection.session {
            Session::Tokio(_) => None,
            Session::Sqlx(session) => session.lease(),
        }
    }

    async fn write(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<(), DriverError> {
        super::sqlx_session::write(self, sql, parameters).await
    }
}
