use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openssl::error::ErrorStack;
use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509;
use outboxd::internals::postgres::{ServerOptions, TlsOptions};
use outboxd::internals::secret::Secret;
use outboxd::internals::throwaway::ThrowawayPostgres;
use postgres_openssl::MakeTlsConnector;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, NoTls, Row};

/// Address of a database.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    /// PEM of the authorities; with it, only TLS will do, and the server's certificate must name the host.
    pub(crate) root_cert: Option<String>,
}

impl Address {
    /// Returns the address of a database of this server.
    pub(crate) fn of(server: &ThrowawayPostgres, database: &str) -> Self {
        Self {
            host: server.host().to_string(),
            port: server.port(),
            user: server.user().to_owned(),
            password: server.password().map(|password| password.expose().to_owned()),
            database: database.to_owned(),
            root_cert: None,
        }
    }

    /// Returns the options for outboxd's own client, without TLS.
    pub(crate) fn options(&self) -> ServerOptions {
        ServerOptions {
            host: self.host.clone(),
            port: self.port,
            user: self.user.clone(),
            password: self.password.clone().map(Secret::new).into(),
            database: self.database.clone(),
            tls: TlsOptions::default(),
            tcp_keepalive: true,
            initial_statements: Vec::new(),
            query_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(5),
        }
    }
}

/// A blocking SQL session, opened on the first statement and again when the server has closed it.
#[derive(Debug)]
pub(crate) struct Session {
    address: Address,
    runtime: Runtime,
    connection: Mutex<Option<Connection>>,
}

impl Session {
    pub(crate) fn new(address: Address) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        Self { address, runtime, connection: Mutex::new(None) }
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Runs statements, all in one transaction unless they control transactions themselves.
    #[track_caller]
    pub(crate) fn execute(&self, sql: &str) {
        self.with(async |client| client.batch_execute(sql).await)
            .unwrap_or_else(|error| panic!("{error:?} in {sql}"));
    }

    /// Runs one query.
    #[track_caller]
    pub(crate) fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.with(async |client| client.query(sql, parameters).await)
            .unwrap_or_else(|error| panic!("{error:?} in {sql}"))
    }

    /// Runs statements that may fail.
    pub(crate) fn try_execute(&self, sql: &str) -> Result<(), Error> {
        self.with(async |client| client.batch_execute(sql).await)
    }

    /// Runs one query that may fail.
    pub(crate) fn try_query(&self, sql: &str) -> Result<Vec<Row>, Error> {
        self.with(async |client| client.query(sql, &[]).await)
    }

    /// Ends the session; the next statement opens another.
    pub(crate) fn disconnect(&self) {
        if let Some(Connection { client, driver }) = self.lock().take() {
            drop(client);
            drop(self.runtime.block_on(driver).unwrap());
        }
    }

    fn with<T>(&self, run: impl AsyncFnOnce(&Client) -> Result<T, Error>) -> Result<T, Error> {
        let mut current = self.lock();
        self.runtime.block_on(async {
            let connection = match current.take() {
                Some(connection) if connection.is_alive().await => connection,
                _ => self.connect().await?,
            };
            let result = run(&connection.client).await;
            *current = Some(connection);
            result
        })
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let mut config = tokio_postgres::Config::new();
        config.host(&self.address.host).port(self.address.port);
        config.user(&self.address.user).dbname(&self.address.database);
        if let Some(password) = &self.address.password {
            config.password(password);
        }
        let Some(root_cert) = &self.address.root_cert else {
            let (client, connection) = config.connect(NoTls).await?;
            return Ok(Connection { client, driver: self.runtime.spawn(connection) });
        };
        let connector = verify_full(root_cert).unwrap();
        let (client, connection) = config.ssl_mode(SslMode::Require).connect(connector).await?;
        Ok(Connection { client, driver: self.runtime.spawn(connection) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Connection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Connection {
    client: Client,
    driver: JoinHandle<Result<(), Error>>,
}

impl Connection {
    /// Returns whether the server answers. Only a query reveals that a server has gone away.
    async fn is_alive(&self) -> bool {
        self.client.batch_execute("").await.is_ok()
    }
}

fn verify_full(root_cert: &str) -> Result<MakeTlsConnector, ErrorStack> {
    let mut builder = SslConnector::builder(SslMethod::tls_client())?;
    for authority in X509::stack_from_pem(root_cert.as_bytes())? {
        builder.cert_store_mut().add_cert(authority)?;
    }
    Ok(MakeTlsConnector::new(builder.build()))
}
