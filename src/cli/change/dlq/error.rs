//! Errors of `outboxd dlq`.

use std::io;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::kafka::{self, TransactionFault};
use crate::key_store;

/// Reasons why nothing, or nothing more, is done about dead letters.
#[derive(Debug, thiserror::Error)]
pub(super) enum DlqError {
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    KeyStore(#[from] key_store::Error),
    #[error(transparent)]
    Kafka(kafka::Error),
    #[error("no dead-letter topic is configured")]
    NoSource,
    #[error("there is no topic {0:?}")]
    NoTopic(String),
    #[error("--to {0:?} is the dead-letter topic itself, or the topic with the states of dead letters")]
    ToItself(String),
    #[error("{place}: topic {topic:?} has several partitions")]
    NoPartition { place: String, topic: String },
    #[error("there is no dead letter {place} in topic {topic:?}")]
    NoLetter { place: String, topic: String },
    #[error("topic {topic:?} has more than {max} dead letters that are not settled")]
    TooMany { topic: String, max: usize },
    #[error("another outboxd dlq has started on topic {0:?} and replaces this one")]
    Replaced(String),
    #[error("a Kafka transaction was given up {0} times")]
    GivenUp(u32),
    #[error("{} cannot be written", path.display())]
    Output {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("standard output cannot be written")]
    Stdout(#[source] io::Error),
    #[error("the thread that does the work was interrupted")]
    Aborted,
}

impl DlqError {
    /// Makes the error of sending; a fenced producer means that another run has taken the transactions over.
    pub(super) fn of_sending(error: kafka::Error, topic: &str) -> Self {
        match error {
            kafka::Error::Transaction { fault: TransactionFault::Fenced, .. } => {
                Self::Replaced(topic.to_owned())
            }
            other => Self::Kafka(other),
        }
    }
}

impl From<kafka::Error> for DlqError {
    fn from(error: kafka::Error) -> Self {
        Self::Kafka(error)
    }
}

impl Diagnose for DlqError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Config(error) => error.diagnosis(),
            Self::KeyStore(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::NoSource => Diagnosis::config()
                .with_fix("name it: --from TOPIC, or errors.deadletterqueue.topic.name in the configuration"),
            Self::ToItself(_) => Diagnosis::config(),
            Self::NoPartition { .. } => {
                Diagnosis::config().with_fix("give PARTITION:OFFSET, as outboxd dlq ls --records shows it")
            }
            Self::NoTopic(_) | Self::NoLetter { .. } => Diagnosis::definite(Exit::Precondition),
            Self::TooMany { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("discard dead letters that are not needed, or shorten the topic's retention"),
            Self::Replaced(_) => Diagnosis::definite(Exit::Precondition)
                .with_fix("nothing is sent twice: wait for the other one, then run this again"),
            Self::GivenUp(_) | Self::Output { .. } | Self::Stdout(_) | Self::Aborted => {
                Diagnosis::definite(Exit::Failed)
            }
        }
    }
}
