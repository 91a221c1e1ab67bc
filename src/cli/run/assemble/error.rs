//! Errors of a configuration that cannot run.

use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis};
use crate::{kafka, key_store, otlp, registry};

/// Reasons why a configuration cannot run.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum AssembleError {
    #[error("no configuration is given")]
    NoConfiguration,
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    KeyStore(#[from] key_store::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Otlp(#[from] otlp::Error),
}

impl From<ConfigError> for AssembleError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl Diagnose for AssembleError {
    fn diagnosis(&self) -> Diagnosis {
        // Before the start every fault is one of the configuration, also one that a session would retry.
        let of_config = |error: &dyn Diagnose| Diagnosis::config().with_optional_fix(error.fix());
        match self {
            Self::NoConfiguration => Diagnosis::config().with_fix(
                "-c FILE names the connector's JSON or application.properties; outboxd init writes one",
            ),
            Self::Config(error) => error.diagnosis(),
            Self::KeyStore(error) => of_config(error),
            Self::Kafka(error) => of_config(error),
            Self::Registry(error) => of_config(error),
            Self::Otlp(error) => of_config(error),
        }
    }
}
