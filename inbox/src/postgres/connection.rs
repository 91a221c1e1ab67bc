use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Client, Config, Socket, Statement};

use super::error::Error;
use super::statements;

/// How long a connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long a server's machine may be silent to what was sent to it; otherwise the connection is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

type Connecting = Pin<Box<dyn Future<Output = Result<Raw, tokio_postgres::Error>> + Send>>;

/// Opens connections to the service's database.
#[derive(Clone)]
pub struct Connector {
    connect: Arc<dyn Fn() -> Connecting + Send + Sync>,
}

/// A connection and the task that drives it, which ends with this value.
struct Raw {
    client: Client,
    driver: JoinSet<()>,
}

impl Connector {
    /// With this configuration, and TLS as `tls` does it, or `NoTls`.
    #[must_use]
    pub fn new<T>(config: Config, tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let mut config = config;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_WITHIN);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(ANSWER_WITHIN);
        }
        let connect = move || -> Connecting {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await?;
                let mut driver = JoinSet::new();
                driver.spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!(%error, "a connection to PostgreSQL has ended");
                    }
                });
                Ok(Raw { client, driver })
            })
        };
        Self { connect: Arc::new(connect) }
    }

    /// Makes the inbox's tables, unless they are there.
    ///
    /// # Errors
    ///
    /// When PostgreSQL cannot be reached, or does not let the user make tables.
    pub async fn create_tables(&self) -> Result<(), Error> {
        let raw = (self.connect)().await.map_err(Error::Connect)?;
        let sql = format!(
            "BEGIN; SELECT pg_advisory_xact_lock({}, 0); {} COMMIT",
            statements::LOCK_CLASS,
            super::SCHEMA
        );
        raw.client.batch_execute(&sql).await.map_err(Error::of("make the inbox's tables"))
    }

    /// Opens one.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        let raw = (self.connect)().await.map_err(Error::Connect)?;
        let enter =
            raw.client.prepare(statements::ENTER).await.map_err(Error::of("read the inbox's tables"))?;
        Ok(Connection { client: Arc::new(raw.client), enter, _driver: raw.driver })
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

/// A connection with its prepared statements.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) client: Arc<Client>,
    pub(super) enter: Statement,
    _driver: JoinSet<()>,
}

impl Connection {
    /// Whether it can be used again.
    pub(crate) fn is_usable(&self) -> bool {
        !self.client.is_closed()
    }
}
