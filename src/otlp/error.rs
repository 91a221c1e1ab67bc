use std::io;
use std::path::PathBuf;

use crate::error::{Class, Diagnose};

/// Why spans cannot be exported, or were not.
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

impl Diagnose for Error {
    fn class(&self) -> Class {
        match self {
            Self::Variable { .. } | Self::Certificates { .. } => Class::Config,
            Self::Unreachable { .. } | Self::Refused { status: 429 | 502..=504, .. } => Class::Transient,
            Self::Refused { .. } => Class::Definite,
        }
    }

    fn cure(&self) -> Option<String> {
        Some(match self {
            Self::Variable { variable, instead, .. } => format!("{variable}={instead}"),
            Self::Certificates { .. } => "OTEL_EXPORTER_OTLP_CERTIFICATE=/path/to/authorities.pem".to_owned(),
            Self::Unreachable { .. } => "OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318".to_owned(),
            Self::Refused { status: 401 | 403, .. } => {
                "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20TOKEN".to_owned()
            }
            Self::Refused { .. } => {
                "OTEL_EXPORTER_OTLP_ENDPOINT must be the port for HTTP, 4318 as a rule".to_owned()
            }
        })
    }
}
