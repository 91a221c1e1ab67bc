use crate::cli::shell::decoding::DecodingError;
use crate::error::{Class, Diagnose, Exit};
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
    fn class(&self) -> Class {
        match self {
            Self::Postgres(error) => error.class(),
            Self::Kafka(error) => error.class(),
            Self::Relay(error) => error.class(),
            Self::Decoding(error) => error.class(),
            Self::Renamed(_) | Self::TooManyTopics { .. } | Self::NoTopic(_) => Class::Config,
            Self::NoAnswer(_) | Self::Aborted => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Postgres(error) => error.exit(),
            Self::Kafka(error) => error.exit(),
            Self::Relay(error) => error.exit(),
            Self::Decoding(error) => error.exit(),
            Self::Renamed(_) | Self::TooManyTopics { .. } | Self::NoTopic(_) => Exit::Usage,
            Self::NoAnswer(_) | Self::Aborted => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Relay(error) => error.cure(),
            Self::Decoding(error) => error.cure(),
            Self::Renamed(_) => Some(
                "ask the running relay for its topics: --http ADDR; or name the topic: --topic TOPIC"
                    .to_owned(),
            ),
            Self::NoAnswer(_) => Some(
                "--http is the status port of outboxd run --http ADDR; or name the topic: --topic TOPIC"
                    .to_owned(),
            ),
            Self::TooManyTopics { .. } => Some("name the one that is meant: --topic TOPIC".to_owned()),
            Self::NoTopic(_) => {
                Some("leave --topic out: the topics that it can be in are looked through".to_owned())
            }
            Self::Aborted => None,
        }
    }
}
