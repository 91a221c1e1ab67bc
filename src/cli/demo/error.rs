//! Errors of the demo.

use std::io;

use rdkafka::error::KafkaError;

use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::address::AddressError;
use crate::error::{Diagnose, Diagnosis, Exit};
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
    Occupied { server: &'static str, objects: String, fix: String },
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
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Throwaway(error) => error.diagnosis(),
            Self::Postgres(error @ postgres::Error::Connect { .. }) => error
                .diagnosis()
                .with_fix("check --postgres, that the server runs, and that the firewall lets outboxd in"),
            Self::Postgres(error) => error.diagnosis(),
            Self::Configuration(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Address(error) => error.diagnosis(),
            Self::Occupied { fix, .. } => Diagnosis::definite(Exit::Precondition).with_fix(fix),
            Self::Kafka { .. } => Diagnosis::transient(Exit::KafkaUnreachable)
                .with_fix("check --kafka, and that the brokers run"),
            Self::Io { .. } => Diagnosis::definite(Exit::Failed),
        }
    }
}
