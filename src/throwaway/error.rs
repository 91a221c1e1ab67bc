//! Errors of the throwaway PostgreSQL.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Diagnose, Diagnosis, Exit};

/// Reasons why there is no throwaway PostgreSQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder that could not be made or read.
    #[error("cannot use {path}", path = path.display())]
    Folder {
        /// Folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Root, and no account to lend.
    #[error(
        "PostgreSQL refuses to run as root, and there is no account \"postgres\" or \"nobody\" to run it as"
    )]
    NoAccount,
    /// Every port that was tried is taken.
    #[error("cannot find a port on 127.0.0.1")]
    Port(#[source] io::Error),
    /// The shell that keeps the server could not be started, or has left.
    #[error("lost the shell that keeps the throwaway PostgreSQL")]
    ServerShell(#[source] io::Error),
    /// Not installed, and not fetched either.
    #[error("PostgreSQL {major} is not installed and cannot be fetched from Maven Central")]
    Fetch {
        /// Major version.
        major: u16,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server or its `initdb` gave up.
    #[error("cannot {doing} the throwaway PostgreSQL; its output:\n{log}")]
    Server {
        /// Action.
        doing: &'static str,
        /// The end of its log.
        log: String,
    },
}

impl Error {
    pub(super) fn folder(path: &Path, source: io::Error) -> Self {
        Self::Folder { path: path.to_owned(), source }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoAccount => {
                Diagnosis::definite(Exit::Precondition).with_fix("useradd --system postgres")
            }
            Self::Fetch { major, .. } => Diagnosis::transient(Exit::Precondition).with_fix(format!(
                "allow https to repo1.maven.org, or name a proxy as https_proxy, or install a server: apt-get install \
                 postgresql-{major}"
            )),
            Self::Port(_) | Self::ServerShell(_) => Diagnosis::transient(Exit::Failed),
            Self::Folder { .. } | Self::Server { .. } => Diagnosis::definite(Exit::Failed),
        }
    }
}
