//! The throwaway PostgreSQL.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::account::Account;
use super::binaries::Binaries;
use super::cluster::{self, Cluster};
use super::keeper::{Order, ServerShell};
use super::{Authentication, Error, Options, StopMode, port};
use crate::secret::Secret;

const SUPERUSER: &str = "postgres";
/// A port may be taken by another process between our look and the server's bind.
const PORT_COUNT_MAX: u32 = 5;
/// A tenth of a second apart: after a crash, the old server's memory takes a moment to go.
const RESTART_ATTEMPT_COUNT_MAX: u32 = 50;
const LOG_LINE_COUNT_MAX: usize = 20;

/// A PostgreSQL of our own, gone with its data when this value is dropped or our process ends.
#[derive(Debug)]
pub struct ThrowawayPostgres {
    keeper: ServerShell,
    folder: PathBuf,
    major: u16,
    port: u16,
    password: Option<Secret>,
}

impl ThrowawayPostgres {
    /// Makes a cluster and starts its server; returns once the server accepts connections.
    ///
    /// # Errors
    /// When there is no PostgreSQL to be had, or it does not start with these options.
    pub fn start(options: &Options) -> Result<Self, Error> {
        let mut server = Self::initialize(options)?;
        for _ in 1..PORT_COUNT_MAX {
            if server.order(Order::Start { port: server.port, attempt_count_max: 1 }, "start").is_ok() {
                return Ok(server);
            }
            server.port = port::unused_port().map_err(Error::Port)?;
        }
        server.order(Order::Start { port: server.port, attempt_count_max: 1 }, "start")?;
        Ok(server)
    }

    /// Stops the server; its data stays.
    ///
    /// # Errors
    /// When it has not stopped within this time: a walsender whose client does not confirm holds back
    /// [`StopMode::Fast`].
    pub fn stop(&mut self, mode: StopMode, within: Duration) -> Result<(), Error> {
        self.order(Order::Stop { mode, within }, "stop")
    }

    /// Kills every process of the server at once, as a power failure does.
    ///
    /// # Errors
    /// When the shell that keeps the server is gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        self.order(Order::Kill, "kill")
    }

    /// Starts the server after [`Self::stop`] or [`Self::kill`], on the same port with the same data.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_again(&mut self) -> Result<(), Error> {
        let attempt_count_max = RESTART_ATTEMPT_COUNT_MAX;
        self.order(Order::Start { port: self.port, attempt_count_max }, "start")
    }

    /// Returns the major version.
    #[must_use]
    pub const fn major(&self) -> u16 {
        self.major
    }

    /// Returns the address it listens on.
    #[must_use]
    pub const fn host(&self) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    /// Returns the TCP port, which is also in the name of the socket in [`Self::folder`].
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the superuser.
    #[must_use]
    pub const fn user(&self) -> &'static str {
        SUPERUSER
    }

    /// Returns the superuser's password, with [`Authentication::ScramSha256`].
    #[must_use]
    pub const fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }

    /// Returns a connection string for psql and tokio-postgres, without the password.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://{SUPERUSER}@{}:{}/{database}", self.host(), self.port)
    }

    /// Returns the folder that holds everything of this server, its Unix socket and `data` among it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the server's log since it was created.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn log(&self) -> Result<String, Error> {
        let path = self.folder.join("server.log");
        let bytes = fs::read(&path).map_err(|source| Error::folder(&path, source))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn initialize(options: &Options) -> Result<Self, Error> {
        let folder = cluster::folder(options.parent.as_deref())?;
        let account = Account::for_owner_of(folder.path())?;
        let binaries = Binaries::locate(options.release, account)?;
        let cluster = Cluster::new(folder.path(), account);
        let arguments = cluster.prepare(&options.authentication)?;
        let port = port::unused_port().map_err(Error::Port)?;
        let keeper = ServerShell::spawn(&binaries.folder, folder.path(), account, &arguments);
        let keeper = keeper.map_err(Error::ServerShell)?;
        let password = match &options.authentication {
            Authentication::Trust => None,
            Authentication::ScramSha256(password) => Some(password.clone()),
        };
        let mut server = Self { keeper, folder: folder.keep(), major: binaries.major, port, password };
        server.order(Order::Initdb, "initialize")?;
        Cluster::new(&server.folder, account).configure(options)?;
        Ok(server)
    }

    fn order(&mut self, order: Order, doing: &'static str) -> Result<(), Error> {
        if self.keeper.give(order).map_err(Error::ServerShell)? {
            return Ok(());
        }
        Err(Error::Server { doing, log: last_lines(&self.log()?) })
    }
}

fn last_lines(log: &str) -> String {
    let count = log.lines().count();
    let lines: Vec<&str> = log.lines().skip(count.saturating_sub(LOG_LINE_COUNT_MAX)).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_end_of_the_log() {
        let log: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        assert!(last_lines(&log).starts_with("line 11\n"));
        assert!(last_lines(&log).ends_with("line 30"));
        assert_eq!(last_lines("one"), "one");
    }
}
