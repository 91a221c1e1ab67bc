use std::{fs, io};

use openssl::ssl::{ConnectConfiguration, SslConnector, SslMethod};
use openssl::x509::X509;

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
    let mut builder = SslConnector::builder(SslMethod::tls())?;
    let named = options.truststore.as_deref().map(fs::read).transpose()?;
    let pem = named.or_else(|| options.certificates.clone().map(String::into_bytes));
    match pem {
        Some(pem) => {
            for certificate in X509::stack_from_pem(&pem)? {
                builder.cert_store_mut().add_cert(certificate)?;
            }
        }
        None => {
            if let Some(system) = openssl_probe::probe().cert_file {
                builder.set_ca_file(system)?;
            }
        }
    }
    Ok(builder.build())
}
