use super::connection::Connection;
use super::error::DriverError;
use super::session::{Parameter, Session};
#[cfg(feature = "sqlx")]
use super::sqlx_session::SqlxTransaction;
use super::tokio_session::Transaction;
use sealed::Leased;

/// What handlers are given: [`Transaction`], or `SqlxTransaction` with the feature `sqlx`.
pub trait HandlerTransaction: Leased + Send + 'static {}

pub(crate) mod sealed {
    use super::{Connection, DriverError, Parameter};

    pub trait Leased: Sized {
        /// The connection's transaction; nothing while another handler has it, and for another driver.
        fn lease(connection: &Connection) -> Option<Self>;

        /// One statement of the inbox's other parts, in the transaction.
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
