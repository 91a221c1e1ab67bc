use crate::config::ConfigError;
use crate::error::{Class, Diagnose};
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
    fn class(&self) -> Class {
        Class::Config
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::NoConfiguration => Some(
                "-c FILE names the connector's JSON or application.properties; outboxd init writes one"
                    .to_owned(),
            ),
            Self::Config(error) => error.cure(),
            Self::KeyStore(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Registry(error) => error.cure(),
            Self::Otlp(error) => error.cure(),
        }
    }
}
