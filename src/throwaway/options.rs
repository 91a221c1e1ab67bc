//! Options of the throwaway server.

use std::path::PathBuf;

use crate::secret::Secret;

/// Options of the server. The default: the newest installed major, trust, durable, no TLS.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Major version.
    pub release: Release,
    /// Authentication of clients.
    pub authentication: Authentication,
    /// `fsync=off` when true: faster, survives a crash of the server but not of the machine. Default false.
    pub skip_fsync: bool,
    /// More lines of `postgresql.conf`, as name and value; the last one of a name wins, over ours as well.
    pub settings: Vec<(String, String)>,
    /// Lines of `pg_hba.conf` that come before ours; PostgreSQL takes the first that matches.
    pub hba: Vec<String>,
    /// The server's certificate; `ssl=on` when present.
    pub certificate: Option<Certificate>,
    /// Parent of the server's folder. Other accounts must be able to search it. Default `/var/tmp`, which is
    /// seldom memory.
    pub parent: Option<PathBuf>,
}

/// Major version of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// The newest one installed, of 14 or above; else one is fetched.
    #[default]
    Newest,
    /// This one, fetched unless it is installed.
    Major(u16),
}

/// Authentication of clients.
#[derive(Debug, Clone, Default)]
pub enum Authentication {
    /// None.
    #[default]
    Trust,
    /// `scram-sha-256`; the password is that of the superuser `postgres`.
    ScramSha256(Secret),
}

/// A certificate and its key, as PEM texts.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// `ssl_cert_file`: the server's certificate, followed by what it was signed with, if anything.
    pub chain_pem: String,
    /// `ssl_key_file`: its private key, without a passphrase.
    pub key_pem: Secret,
    /// `ssl_ca_file`: who may sign the certificates of clients.
    pub client_ca_pem: Option<String>,
}

/// Mode of stopping a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Waits for every client to leave.
    Smart,
    /// Ends the sessions, waits for walsenders to be confirmed, writes a checkpoint.
    Fast,
    /// Leaves at once; the next start recovers.
    Immediate,
}

impl StopMode {
    /// Returns the signal to the postmaster.
    pub(super) const fn signal(self) -> &'static str {
        match self {
            Self::Smart => "TERM",
            Self::Fast => "INT",
            Self::Immediate => "QUIT",
        }
    }
}
