use std::{fs, io};

use openssl::ssl::{ConnectConfiguration, SslConnector};

use super::error::Error;
use super::options::TlsOptions;

/// TLS towards the registry, set up once.
#[derive(Clone)]
pub(super) struct Tls {
    connector: SslConnector,
    any_host: bool,
}

impl Tls {
    /// Reads the certificates; `converter` is the option under which they are named.
    pub(super) fn new(options: &TlsOptions, converter: &str) -> Result<Self, Error> {
        let unusable = |source| Error::Certificates {
            option: format!("{converter}.schema.registry.ssl.truststore.location"),
            source,
        };
        let connector = connector(options).map_err(unusable)?;
        Ok(Self { connector, any_host: options.any_host })
    }

    pub(super) fn session(&self) -> io::Result<ConnectConfiguration> {
        Ok(self.connector.configure()?.verify_hostname(!self.any_host))
    }
}

fn connector(options: &TlsOptions) -> io::Result<SslConnector> {
    let named = options.truststore.as_deref().map(fs::read).transpose()?;
    let pem = named.or_else(|| options.certificates.clone().map(String::into_bytes));
    crate::http_client::connector(pem.as_deref())
}
