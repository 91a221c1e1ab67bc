//! Address of PostgreSQL.

use tokio_postgres::config::{Host, SslMode};

use crate::config::Sources;
use crate::error::{Diagnose, Diagnosis};
use crate::secret::Secret;

const PORT: u16 = 5432;

/// The variable with the password of PostgreSQL.
pub(in crate::cli) const PASSWORD: &str = "OUTBOXD_DATABASE_PASSWORD";

/// One database of one server, and the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Address {
    /// A name, an address, or the folder of a socket.
    pub(in crate::cli) host: String,
    pub(in crate::cli) port: u16,
    pub(in crate::cli) user: String,
    pub(in crate::cli) password: Option<Secret>,
    pub(in crate::cli) database: String,
    /// Mode, as in `database.sslmode`.
    pub(in crate::cli) sslmode: &'static str,
}

/// Fault of `--postgres`.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AddressError {
    /// It cannot be parsed.
    #[error("--postgres is no connection URL")]
    Url(#[source] tokio_postgres::Error),
    /// It lacks what cannot be guessed.
    #[error("--postgres names no {0}")]
    Lacks(&'static str),
}

impl Diagnose for AddressError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::config().with_fix("write it as postgresql://user:password@host:5432/database")
    }
}

impl Address {
    /// Reads `--postgres`: a URL or `key=value` pairs, as libpq reads them.
    pub(in crate::cli) fn parse(text: &str) -> Result<Self, AddressError> {
        let config: tokio_postgres::Config = text.parse().map_err(AddressError::Url)?;
        let host = match config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => folder.display().to_string(),
            None => return Err(AddressError::Lacks("host")),
        };
        let user = config.get_user().ok_or(AddressError::Lacks("user"))?.to_owned();
        let password = config.get_password().map(|password| Secret::new(String::from_utf8_lossy(password)));
        Ok(Self {
            host,
            port: config.get_ports().first().copied().unwrap_or(PORT),
            database: config.get_dbname().unwrap_or(&user).to_owned(),
            user,
            password,
            sslmode: match config.get_ssl_mode() {
                SslMode::Disable => "disable",
                SslMode::Require => "require",
                _ => "prefer",
            },
        })
    }

    /// Returns the settings of a connector, without the password.
    pub(in crate::cli) fn settings(&self) -> [(&'static str, String); 5] {
        [
            ("database.hostname", self.host.clone()),
            ("database.port", self.port.to_string()),
            ("database.user", self.user.clone()),
            ("database.dbname", self.database.clone()),
            ("database.sslmode", self.sslmode.to_owned()),
        ]
    }

    /// Adds the address to a configuration. The password is passed as its variable, since a file may name it so.
    pub(in crate::cli) fn add_to(&self, sources: &mut Sources) {
        sources.overrides.extend(self.settings().map(|(key, value)| format!("{key}={value}")));
        match &self.password {
            Some(password) => {
                sources.environment.retain(|(name, _)| name != PASSWORD);
                sources.environment.push((PASSWORD.to_owned(), password.expose().to_owned()));
            }
            // A file may be about another role, whose password is not needed.
            None if sources.environment.iter().all(|(name, _)| name != PASSWORD) => {
                sources.environment.push((PASSWORD.to_owned(), String::new()));
            }
            None => {}
        }
    }

    /// Returns the URL for psql, without the password.
    #[cfg(any(test, feature = "demo"))]
    pub(in crate::cli) fn url(&self) -> String {
        let Self { host, port, user, database, .. } = self;
        match host.starts_with('/') {
            true => format!("postgresql:///{database}?host={host}&port={port}&user={user}"),
            false if host.contains(':') => format!("postgresql://{user}@[{host}]:{port}/{database}"),
            false => format!("postgresql://{user}@{host}:{port}/{database}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_are_shown_without_the_password() {
        let cases = [
            ("postgres://ada:secret@db:6432/shop?sslmode=require", "postgresql://ada@db:6432/shop"),
            ("host=db user=ada password=secret", "postgresql://ada@db:5432/ada"),
            ("postgresql://ada@[::1]/shop", "postgresql://ada@[::1]:5432/shop"),
            (
                "host=/run/postgresql user=ada dbname=shop",
                "postgresql:///shop?host=/run/postgresql&port=5432&user=ada",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Address::parse(text).unwrap().url(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, expected) in [
            ("postgres://db/shop", "--postgres names no user"),
            ("user=ada", "--postgres names no host"),
            ("shop", "--postgres is no connection URL"),
        ] {
            let error = Address::parse(text).unwrap_err();
            assert_eq!(error.to_string(), expected, "{text}");
            assert!(error.fix().is_some());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            drop(Address::parse(&text));
        }
    }
}
