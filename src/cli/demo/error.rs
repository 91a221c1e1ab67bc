use std::io;

use rdkafka::error::KafkaError;

use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::address::AddressError;
use crate::error::{Class, Diagnose, Exit};
use crate::{postgres, relay, throwaway};

/// Reasons why the demo ended before its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error(transparent)]
    Throwaway(#[from] throwaway::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Configuration(#[from] AssembleError),
    #[error(transparent)]
    Relay(#[from] relay::Error),
    #[error(transparent)]
    Address(#[from] AddressError),
    /// Objects of the demo's names exist already, and may belong to another program.
    #[error("{server} already has {objects}")]
    Occupied { server: &'static str, objects: String, cure: String },
    #[error("{doing} failed")]
    Kafka { doing: String, source: KafkaError },
    #[error("{doing} failed")]
    Io { doing: &'static str, source: io::Error },
}

impl Error {
    pub(super) fn io(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io { doing, source: source.into() }
    }

    pub(super) fn kafka(doing: impl Into<String>, source: KafkaError) -> Self {
        Self::Kafka { doing: doing.into(), source }
    }

    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Throwaway(error) => Some(error),
            Self::Postgres(error) => Some(error),
            Self::Configuration(error) => Some(error),
            Self::Relay(error) => Some(error),
            Self::Address(error) => Some(error),
            Self::Occupied { .. } | Self::Kafka { .. } | Self::Io { .. } => None,
        }
    }
}

impl Diagnose for Error {
    fn class(&self) -> Class {
        match self {
            Self::Kafka { .. } => Class::Transient,
            _ => self.inner().map_or(Class::Definite, Diagnose::class),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Occupied { .. } => Exit::Precondition,
            Self::Kafka { .. } => Exit::KafkaUnreachable,
            _ => self.inner().map_or(Exit::Failed, Diagnose::exit),
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Occupied { cure, .. } => Some(cure.clone()),
            Self::Postgres(postgres::Error::Connect { .. }) => Some(
                "check --postgres, that the server runs, and that the firewall lets outboxd in".to_owned(),
            ),
            Self::Kafka { .. } => Some("check --kafka, and that the brokers run".to_owned()),
            _ => self.inner().and_then(Diagnose::cure),
        }
    }
}
