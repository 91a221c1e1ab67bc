//! TLS of HTTP clients.

use std::io;

use openssl::ssl::{SslConnector, SslMethod};
use openssl::x509::X509;

/// Creates TLS that trusts these authorities, as PEM, or those of the system.
pub(crate) fn connector(authorities: Option<&[u8]>) -> io::Result<SslConnector> {
    let mut builder = SslConnector::builder(SslMethod::tls())?;
    match authorities {
        Some(pem) => {
            for certificate in X509::stack_from_pem(pem)? {
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
