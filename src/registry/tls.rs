//! TLS of the connection to a schema registry.

use std::io;

use openssl::ssl::{ConnectConfiguration, SslConnector};

use super::error::Error;
use super::options::TlsOptions;
use crate::key_store::KeyStore;

/// TLS towards the registry, set up once.
#[derive(Clone)]
pub(super) struct Tls {
    connector: SslConnector,
    any_host: bool,
}

impl Tls {
    /// Reads the certificates; `converter` is the option under which they are named.
    pub(super) fn new(options: &TlsOptions, converter: &str) -> Result<Self, Error> {
        let named = options.truststore.as_ref().map(KeyStore::certificates).transpose()?;
        let pem = named.as_ref().or(options.certificates.as_ref());
        let unusable = |source| Error::Certificates {
            option: format!("{converter}.schema.registry.ssl.truststore.certificates"),
            source,
        };
        let connector = crate::http_client::connector(pem.map(String::as_bytes)).map_err(unusable)?;
        Ok(Self { connector, any_host: options.any_host })
    }

    pub(super) fn session(&self) -> io::Result<ConnectConfiguration> {
        Ok(self.connector.configure()?.verify_hostname(!self.any_host))
    }
}
