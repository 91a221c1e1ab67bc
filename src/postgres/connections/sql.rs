//! The SQL connection of tokio-postgres, with the settings of its session.

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::SslMode as SqlSslMode;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row, SimpleQueryMessage, SimpleQueryRow};

use super::connection::TlsSetup;
use super::credential;
use super::login;
use super::login::{CATALOG_NAMES, ROLE_NAMES, SESSION};
use crate::postgres::catalog::grants::ALL_ROWS;
use crate::postgres::error::server_error;
use crate::postgres::{Error, ServerOptions, SslMode};
use crate::secret::Secret;

/// Older servers have no such limit, and refuse a session that sets it.
const UNLIMITED_TRANSACTIONS: &str =
    "select set_config(name, '0', false) from pg_settings where name = 'transaction_timeout'";

/// The SQL connection beside the replication connection: catalog, publication, lag.
#[derive(Debug)]
pub struct Sql {
    client: Client,
    /// Drives the connection's socket; ends with this value.
    _driver: JoinSet<()>,
    timeout: std::time::Duration,
    /// `search_path` after `database.initial.statements`, if there are any.
    role_names: Option<String>,
}

impl Sql {
    /// Connects, logs in and runs `database.initial.statements`. Where policies hide rows from the role, the server then refuses
    /// a statement rather than let it pass them over.
    ///
    /// # Errors
    /// When the server cannot be reached, TLS fails, or the login or a statement is refused.
    pub async fn open(options: &ServerOptions, tls: &TlsSetup, application: &str) -> Result<Self, Error> {
        let mut login = credential::Login::begin(options).await?;
        let mut sql = loop {
            let attempt = |mode| Self::open_in_mode(options, login.password(), tls, mode, application);
            let outcome = match attempt(options.tls.mode).await {
                Err(Error::Login { .. }) if options.tls.mode == SslMode::Allow => {
                    attempt(SslMode::Require).await
                }
                outcome => outcome,
            };
            match outcome {
                Ok(sql) => break sql,
                Err(error) => login.renew_after(error).await?,
            }
        };
        sql.execute("preparing the session", CATALOG_NAMES).await?;
        sql.execute("preparing the session", UNLIMITED_TRANSACTIONS).await?;
        sql.run_initial_statements(&options.initial_statements).await?;
        sql.execute("preparing to read all rows", ALL_ROWS).await?;
        Ok(sql)
    }

    /// Runs the statements with the role's own `search_path`, which they may change: later statements of the user's then have
    /// the changed one.
    async fn run_initial_statements(&mut self, statements: &[String]) -> Result<(), Error> {
        if statements.is_empty() {
            return Ok(());
        }
        self.execute("preparing the session", ROLE_NAMES).await?;
        for statement in statements {
            self.execute("running database.initial.statements", statement).await?;
        }
        let path = self.texts("preparing the session", "SHOW search_path").await?;
        self.role_names = path.and_then(|row| row.into_iter().next()).flatten();
        self.execute("preparing the session", CATALOG_NAMES).await
    }

    async fn open_in_mode(
        options: &ServerOptions,
        password: Option<&Secret>,
        tls: &TlsSetup,
        mode: SslMode,
        application: &str,
    ) -> Result<Self, Error> {
        let mut config = Config::new();
        config.host(&options.host).port(options.port).user(&options.user).dbname(&options.database);
        config.application_name(application).connect_timeout(options.connect_timeout);
        config.keepalives(options.tcp_keepalive);
        let setting = |(name, value): (&str, &str)| format!("-c {name}={}", value.replace(' ', "\\ "));
        config.options(SESSION.map(setting).join(" "));
        if let Some(password) = password {
            config.password(password.expose());
        }
        config.ssl_mode(match mode {
            SslMode::Disable | SslMode::Allow => SqlSslMode::Disable,
            SslMode::Prefer => SqlSslMode::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => SqlSslMode::Require,
        });
        let mut driver = JoinSet::new();
        let connecting = async {
            if config.get_ssl_mode() == SqlSslMode::Disable || options.unix_socket().is_some() {
                let (client, connection) = config.connect(NoTls).await?;
                driver.spawn(drive(connection));
                Ok(client)
            } else {
                let (client, connection) = config.connect(tls.0.make_connect()).await?;
                driver.spawn(drive(connection));
                Ok(client)
            }
        };
        let client = timeout(options.connect_timeout, connecting)
            .await
            .map_err(|_| unreachable(options, std::io::ErrorKind::TimedOut.into()))?
            .map_err(|error| open_error(options, error))?;
        Ok(Self { client, _driver: driver, timeout: options.query_timeout, role_names: None })
    }

    /// Prepares the session for statements that the user has written: they have the role's own `search_path`, and policies decide
    /// which rows they see and write.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn serve_user(&self) -> Result<(), Error> {
        self.execute("preparing the session", "RESET row_security").await?;
        self.use_role_names().await
    }

    /// Returns to the role's own `search_path`, as `database.initial.statements` have left it. For a session that nothing else uses at
    /// the same time.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn use_role_names(&self) -> Result<(), Error> {
        let statement = self.role_names.as_ref().map_or_else(
            || ROLE_NAMES.to_owned(),
            |path| {
                let path = postgres_protocol::escape::escape_literal(path);
                format!("SELECT pg_catalog.set_config('search_path', {path}, false)")
            },
        );
        self.execute("preparing the session", &statement).await
    }

    /// Ends the effect of [`Self::use_role_names`].
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn use_catalog_names(&self) -> Result<(), Error> {
        self.execute("preparing the session", CATALOG_NAMES).await
    }

    /// Returns whether the connection is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs a query with parameters.
    ///
    /// # Errors
    /// When the server refuses it, takes longer than `database.query.timeout.ms`, or the connection breaks.
    pub async fn query(
        &self,
        doing: &str,
        text: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.within(doing, self.client.query(text, values)).await
    }

    /// Returns the first row of a query without parameters, each value as the server writes it.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn texts(&self, doing: &str, text: &str) -> Result<Option<Vec<Option<String>>>, Error> {
        let answer = self.within(doing, self.client.simple_query(text)).await?;
        let row = answer.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let values = |row: &SimpleQueryRow| (0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect();
        Ok(row.map(values))
    }

    /// Checks that a text is one statement that can be run; it is not run.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub(crate) async fn check(&self, doing: &str, text: &str) -> Result<(), Error> {
        self.within(doing, self.client.prepare(text)).await.map(drop)
    }

    /// Runs statements that return nothing.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub async fn execute(&self, doing: &str, text: &str) -> Result<(), Error> {
        self.within(doing, self.client.batch_execute(text)).await
    }

    async fn within<T>(
        &self,
        doing: &str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let outcome = timeout(self.timeout, work).await;
        outcome
            .map_err(|_| Error::Timeout { doing: doing.to_owned(), seconds: self.timeout.as_secs() })?
            .map_err(|source| Error::sql(doing, source))
    }
}

async fn drive(connection: impl Future<Output = Result<(), tokio_postgres::Error>>) {
    if let Err(error) = connection.await {
        tracing::debug!(%error, "the SQL connection ended");
    }
}

/// Makes the error of a connection. The replication connection is opened first and reports the finer reasons;
/// here only a refusal is distinguished from the rest.
fn open_error(options: &ServerOptions, error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(refusal) => login::refusal(options, server_error(refusal)),
        None if is_password_missing(&error) => {
            Error::PasswordMissing { address: options.address(), user: options.user.clone() }
        }
        None => unreachable(options, std::io::Error::other(error)),
    }
}

/// Reports whether the server requested a password and none is configured. tokio-postgres has no other sign of it.
fn is_password_missing(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.to_string() == "password missing")
}

fn unreachable(options: &ServerOptions, source: std::io::Error) -> Error {
    Error::Connect { address: options.address(), source }
}
