//! Connections to the service's database.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

use super::error::{DriverError, Error};
use super::session::Session;
use super::statements;
use super::tenancy::Tenancy;
use super::tokio_session::{self, Transaction};

/// Maximum time to open a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Time after which a connection is closed if the server's machine does not acknowledge data that was sent to it.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

type Connecting = Pin<Box<dyn Future<Output = Result<Session, DriverError>> + Send>>;

/// Opens connections to the service's database. `T` is the type of the driver's transaction that handlers receive.
pub struct Connector<T = Transaction> {
    opener: Opener,
    transaction: PhantomData<fn() -> T>,
}

/// [`Connector`] for the inbox itself, which uses both drivers in the same way.
#[derive(Clone)]
pub(crate) struct Opener {
    open: Arc<dyn Fn() -> Connecting + Send + Sync>,
}

impl Connector {
    /// Creates a connector that uses tokio-postgres with this configuration, and with TLS as configured by `tls`, or `NoTls`.
    #[must_use]
    pub fn new<S>(config: Config, tls: S) -> Self
    where
        S: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        S::Stream: Send,
        S::TlsConnect: Send,
        <S::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let mut config = config;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(ANSWER_WITHIN);
        }
        Self::of(move || {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await?;
                let mut driver = JoinSet::new();
                driver.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection to PostgreSQL has ended");
                    }
                });
                Ok(Session::Tokio(tokio_session::Session::new(client, driver)))
            })
        })
    }

    /// Opens a connection of tokio-postgres.
    pub(crate) async fn open(&self) -> Result<tokio_session::Session, Error> {
        match self.opener.connect().await?.session {
            Session::Tokio(session) => Ok(session),
            #[cfg(feature = "sqlx")]
            Session::Sqlx(_) => Err(Error::Connect(DriverError::Other)),
        }
    }
}

#[cfg(feature = "sqlx")]
impl Connector<super::SqlxTransaction> {
    /// Creates a connector that uses sqlx. The inbox opens its own connections, one for each worker, and does not use a pool.
    #[must_use]
    pub fn sqlx(options: sqlx::postgres::PgConnectOptions) -> Self {
        use sqlx::ConnectOptions as _;
        Self::of(move || {
            let options = options.clone();
            Box::pin(async move {
                Ok(Session::Sqlx(super::sqlx_session::Session::new(options.connect().await?).await?))
            })
        })
    }
}

impl<T> Connector<T> {
    fn of(open: impl Fn() -> Connecting + Send + Sync + 'static) -> Self {
        Self { opener: Opener { open: Arc::new(open) }, transaction: PhantomData }
    }

    /// Runs statements that create tables. Two processes that do so at the same time run them one after the other.
    pub(crate) async fn create(&self, schema: &str, doing: &'static str) -> Result<(), Error> {
        let connection = self.opener.connect().await?;
        let sql =
            format!("BEGIN; SELECT pg_advisory_xact_lock({}, 0); {schema} COMMIT", statements::LOCK_CLASS);
        connection.batch(&sql).await.map_err(Error::of(doing))
    }

    pub(crate) fn opener(&self) -> Opener {
        self.opener.clone()
    }
}

impl Opener {
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        let session = tokio::time::timeout(CONNECT_WITHIN, (self.open)()).await;
        let session = session.map_err(|_| Error::ConnectTimeout { within: CONNECT_WITHIN })?;
        let session = session.map_err(Error::Connect)?;
        let (number, since) = (fastrand::i32(0..), Instant::now());
        let mut connection = Connection { session, number, since, incarnation: String::new() };
        connection.incarnation = connection.read_incarnation().await?;
        Ok(connection)
    }
}

impl<T> Clone for Connector<T> {
    fn clone(&self) -> Self {
        Self { opener: self.opener.clone(), transaction: PhantomData }
    }
}

impl<T> fmt::Debug for Connector<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Opener")
    }
}

/// Connection of one of the drivers.
#[derive(Debug)]
pub struct Connection {
    pub(super) session: Session,
    /// Random number by which the transactions of this connection are found after it has broken. It is not negative, so that `pg_locks`
    /// shows the same number.
    pub(super) number: i32,
    since: Instant,
    /// Run of the server, with the tables, that this connection leads to.
    incarnation: String,
}

impl Connection {
    /// Returns the time since it was opened.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }

    async fn read_incarnation(&self) -> Result<String, Error> {
        let doing = "read which server this is";
        let rows = self.query_once(statements::INCARNATION).await.map_err(Error::of(doing))?;
        let row = rows.first().ok_or(DriverError::NoRow).map_err(Error::of(doing))?;
        row.get(0).map_err(Error::of(doing))
    }

    /// Reports whether it leads to the database in which this tenancy began, in the same run of its server. Another database may have lost
    /// the last transactions, and the events after them must not be handled before the lost ones are handled again.
    pub(crate) fn is_of(&self, tenancy: &Tenancy) -> bool {
        *self.incarnation == *tenancy.incarnation
    }

    /// Reports whether it can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        match &self.session {
            Session::Tokio(session) => session.is_usable(),
            #[cfg(feature = "sqlx")]
            Session::Sqlx(_) => true,
        }
    }

    /// Reports whether the handler has given back its transaction.
    pub(crate) fn is_given_back(&self) -> bool {
        match &self.session {
            Session::Tokio(session) => session.is_given_back(),
            #[cfg(feature = "sqlx")]
            Session::Sqlx(session) => session.is_given_back(),
        }
    }
}
