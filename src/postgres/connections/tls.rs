//! TLS of both connections, by `sslmode` as libpq defines it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::ssl::{Ssl, SslConnector, SslMethod, SslRef, SslVerifyMode};
use postgres_openssl::MakeTlsConnector;

use crate::error::chain;
use crate::postgres::{Error, SslMode, TlsOptions};
use crate::secret::Secret;

/// TLS towards PostgreSQL, used by both connections. Clones share the files, which are read again when they have changed.
#[derive(Clone)]
pub(in crate::postgres) struct Tls(Arc<Shared>);

struct Shared {
    options: TlsOptions,
    last: Mutex<Loaded>,
}

/// Certificates and keys, as they were read last.
struct Loaded {
    connector: SslConnector,
    versions: Vec<Option<Version>>,
}

/// State of a file that another program may replace.
#[derive(Debug, PartialEq, Eq)]
struct Version {
    modified: Option<SystemTime>,
    length: u64,
    inode: u64,
}

impl Tls {
    /// Reads the certificate files.
    ///
    /// # Errors
    /// When a file cannot be read or used.
    pub(in crate::postgres) fn new(options: &TlsOptions) -> Result<Self, Error> {
        let last = Mutex::new(Loaded::read(options)?);
        Ok(Self(Arc::new(Shared { options: options.clone(), last })))
    }

    /// Returns the connector of the SQL connection.
    pub(super) fn make_connect(&self) -> MakeTlsConnector {
        let mut make = MakeTlsConnector::new(self.0.connector());
        let verify_hostname = self.0.verifies_hostname();
        make.set_callback(move |config, _| {
            config.set_verify_hostname(verify_hostname);
            Ok(())
        });
        make
    }

    /// Returns a session towards `host` for the replication connection.
    pub(in crate::postgres) fn session(&self, host: &str) -> io::Result<Ssl> {
        let config = self.0.connector().configure()?.verify_hostname(self.0.verifies_hostname());
        Ok(config.into_ssl(host)?)
    }
}

impl Shared {
    /// Returns the connector for a new connection.
    fn connector(&self) -> SslConnector {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if versions(&self.options) != last.versions {
            match Loaded::read(&self.options) {
                Ok(loaded) => {
                    tracing::info!(
                        component = "postgres",
                        "certificate files have changed; new connections use them"
                    );
                    *last = loaded;
                }
                // A certificate may be there before its key.
                Err(error) => tracing::warn!(
                    component = "postgres",
                    error = chain(&error),
                    "certificate files have changed and cannot be used; the last ones still are"
                ),
            }
        }
        last.connector.clone()
    }

    fn verifies_hostname(&self) -> bool {
        self.options.mode == SslMode::VerifyFull
    }
}

impl Loaded {
    fn read(options: &TlsOptions) -> Result<Self, Error> {
        // Before the files are read: a change in between is found at the next connection.
        let versions = versions(options);
        let mut builder = SslConnector::builder(SslMethod::tls()).map_err(|source| Error::TlsHandshake {
            address: "any server".to_owned(),
            source: source.into(),
        })?;
        builder.set_verify(if verifies(options) { SslVerifyMode::PEER } else { SslVerifyMode::NONE });
        let system = || openssl_probe::probe().cert_file.filter(|_| verifies(options));
        if let Some(path) = options.root_cert.clone().or_else(system) {
            builder
                .set_ca_file(&path)
                .map_err(|source| unusable("database.sslrootcert", &path, source.into()))?;
        }
        if let Some(path) = &options.cert {
            builder
                .set_certificate_chain_file(path)
                .map_err(|source| unusable("database.sslcert", path, source.into()))?;
        }
        if let Some(path) = &options.key {
            let key = read_key(path, options.key_password.as_ref())
                .map_err(|source| unusable("database.sslkey", path, source))?;
            builder
                .set_private_key(&key)
                .map_err(|source| unusable("database.sslkey", path, source.into()))?;
        }
        Ok(Self { connector: builder.build(), versions })
    }
}

fn versions(options: &TlsOptions) -> Vec<Option<Version>> {
    let version = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        Some(Version { modified: metadata.modified().ok(), length: metadata.len(), inode: metadata.ino() })
    };
    let files = [&options.root_cert, &options.cert, &options.key];
    files.into_iter().flatten().map(version).collect()
}

/// Returns whether the certificate is verified. `require` does so only when an authority is named, as libpq
/// does.
const fn verifies(options: &TlsOptions) -> bool {
    match options.mode {
        SslMode::VerifyCa | SslMode::VerifyFull => true,
        SslMode::Require => options.root_cert.is_some(),
        SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
    }
}

/// Reads a key: PEM as for libpq, or PKCS#8 DER as for pgjdbc.
fn read_key(path: &Path, password: Option<&Secret>) -> io::Result<PKey<Private>> {
    let bytes = fs::read(path)?;
    let password = password.map(|secret| secret.expose().as_bytes());
    let key = if bytes.starts_with(b"-----") {
        // Without a passphrase OpenSSL would prompt on the terminal.
        PKey::private_key_from_pem_passphrase(&bytes, password.unwrap_or_default())
    } else {
        match password {
            Some(password) => PKey::private_key_from_pkcs8_passphrase(&bytes, password),
            None => PKey::private_key_from_der(&bytes),
        }
    };
    Ok(key?)
}

fn unusable(option: &'static str, path: &Path, source: io::Error) -> Error {
    Error::TlsFile { option, path: path.display().to_string(), source }
}

/// Returns the hash of the server's certificate, for SCRAM's channel binding `tls-server-end-point` (RFC 5929
/// §4.1).
pub(super) fn server_end_point(ssl: &SslRef) -> Option<Vec<u8>> {
    let certificate = ssl.peer_certificate()?;
    let signature = certificate.signature_algorithm().object().nid().signature_algorithms()?;
    let digest = match signature.digest {
        Nid::MD5 | Nid::SHA1 => MessageDigest::sha256(),
        other => MessageDigest::from_nid(other)?,
    };
    certificate.digest(digest).ok().map(|hash| hash.to_vec())
}
