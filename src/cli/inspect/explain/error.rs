//! Errors of `outboxd explain`.

use crate::cli::shell::decoding::DecodingError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::http::AskError;
use crate::{kafka, postgres, relay};

/// Reasons for which an event cannot be explained.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ExplainError {
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Relay(Box<relay::Error>),
    #[error(transparent)]
    Decoding(#[from] DecodingError),
    #[error("the transform {0} may lead records to any topic")]
    Renamed(String),
    #[error("the running relay cannot be asked for its topics")]
    NoAnswer(#[source] AskError),
    #[error("{found} topics may have the record; more than {max} are not searched")]
    TooManyTopics { found: usize, max: usize },
    #[error("there is no topic {0:?}")]
    NoTopic(String),
    #[error("the thread that does the work was interrupted")]
    Aborted,
}

impl Diagnose for ExplainError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Postgres(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Decoding(error) => error.diagnosis(),
            Self::Renamed(_) => Diagnosis::config().with_fix(
                "ask the running relay for its topics: --http ADDR; or name the topic: --topic TOPIC",
            ),
            Self::TooManyTopics { .. } => {
                Diagnosis::config().with_fix("name the one that is meant: --topic TOPIC")
            }
            Self::NoTopic(_) => Diagnosis::config()
                .with_fix("leave --topic out: the topics that it can be in are looked through"),
            Self::NoAnswer(_) => Diagnosis::definite(Exit::Failed).with_fix(
                "--http is the status port of outboxd run --http ADDR; or name the topic: --topic TOPIC",
            ),
            Self::Aborted => Diagnosis::definite(Exit::Failed),
        }
    }
}
