//! Errors of the export of spans.

use std::io;
use std::path::PathBuf;

use crate::error::{Class, Diagnose, Diagnosis, Exit};
use crate::telemetry::SpanLoss;

/// Reasons why spans cannot be exported, or were not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A variable has a value that outboxd cannot work with.
    #[error("environment variable {variable}={value}: {reason}")]
    Variable {
        variable: &'static str,
        value: String,
        reason: &'static str,
        /// A value that it may have.
        instead: &'static str,
    },
    /// The certificates of `OTEL_EXPORTER_OTLP_CERTIFICATE`.
    #[error("the certificates in {path} cannot be read", path = .path.display())]
    Certificates {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Certificates of the system, where the variable names none.
    #[error("the system's certificates cannot be read")]
    SystemCertificates(#[source] io::Error),
    /// No answer.
    #[error("the collector at {endpoint} cannot be reached")]
    Unreachable {
        endpoint: String,
        #[source]
        source: io::Error,
    },
    /// Another answer than 200.
    #[error("the collector at {endpoint} answers {status}")]
    Refused { endpoint: String, status: u16 },
}

impl Error {
    /// Returns the label under which spans are counted that were not exported because of it.
    pub(super) fn loss(&self) -> SpanLoss {
        match self {
            Self::Refused { .. } if self.class() != Class::Transient => SpanLoss::Refused,
            _ => SpanLoss::Unreachable,
        }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Variable { variable, instead, .. } => {
                Diagnosis::config().with_fix(format!("{variable}={instead}"))
            }
            Self::Certificates { .. } | Self::SystemCertificates(_) => {
                Diagnosis::config().with_fix("OTEL_EXPORTER_OTLP_CERTIFICATE=/path/to/authorities.pem")
            }
            Self::Unreachable { .. } => Diagnosis::transient(Exit::Failed)
                .with_fix("OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318"),
            Self::Refused { status: 429 | 502..=504, .. } => Diagnosis::transient(Exit::Failed),
            Self::Refused { status: 401 | 403, .. } => Diagnosis::definite(Exit::Failed)
                .with_fix("OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN"),
            Self::Refused { status: 413, .. } => {
                Diagnosis::definite(Exit::Failed).with_fix("OTEL_BSP_MAX_EXPORT_BATCH_SIZE=128")
            }
            Self::Refused { status: 404 | 405 | 415, .. } => Diagnosis::definite(Exit::Failed)
                .with_fix("OTEL_EXPORTER_OTLP_ENDPOINT must be the port for HTTP, 4318 as a rule"),
            Self::Refused { .. } => Diagnosis::definite(Exit::Failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_port_is_suggested_only_if_the_server_does_not_receive_spans() {
        let is_about_the_port = |status| {
            let fix = Error::Refused { endpoint: "http://collector".to_owned(), status }.fix();
            fix.is_some_and(|fix| fix.contains("port"))
        };
        assert!([404, 405, 415].into_iter().all(is_about_the_port));
        assert!(![400, 401, 403, 413, 429, 500, 503].into_iter().any(is_about_the_port));
    }
}
