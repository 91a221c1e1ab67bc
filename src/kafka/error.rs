use rdkafka::error::KafkaError;

use super::delivery::Rejection;
use crate::error::{Class, Diagnose, Exit};

/// What can go wrong between us and Kafka.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// librdkafka refuses a setting.
    #[error("a Kafka setting is not usable")]
    Settings(#[source] KafkaError),
    /// No broker answered.
    #[error("Kafka at {servers} cannot be reached within {seconds} s: {reason}")]
    Unreachable {
        /// `bootstrap.servers`.
        servers: String,
        /// How long was tried.
        seconds: u64,
        /// librdkafka's last word.
        reason: String,
    },
    /// A record was refused for good.
    #[error("Kafka refused a record of {0}")]
    Rejected(#[source] Box<Rejection>),
    /// The producer is in a state from which it cannot go on.
    #[error("the Kafka producer cannot go on: {0}")]
    Fatal(String),
}

impl Diagnose for Error {
    fn class(&self) -> Class {
        match self {
            Self::Settings(_) => Class::Config,
            Self::Unreachable { .. } | Self::Fatal(_) => Class::Transient,
            Self::Rejected(_) => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Settings(_) => Exit::Usage,
            Self::Unreachable { .. } => Exit::KafkaUnreachable,
            Self::Rejected(_) => Exit::Row,
            Self::Fatal(_) => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Settings(_) => {
                Some("see the producer.* and rdkafka.* keys of the configuration".to_owned())
            }
            Self::Unreachable { reason, .. } => Some(unreachable_cure(reason).to_owned()),
            Self::Rejected(rejection) => rejection.cure(),
            Self::Fatal(_) => None,
        }
    }
}

fn unreachable_cure(reason: &str) -> &'static str {
    let says = |word: &str| reason.to_ascii_lowercase().contains(word);
    if says("sasl") || says("authentication") {
        "check producer.security.protocol, producer.sasl.mechanism and producer.sasl.jaas.config"
    } else if says("ssl") || says("certificate") {
        "check producer.security.protocol and producer.ssl.truststore.location (a PEM file)"
    } else {
        "check bootstrap.servers, that the brokers run, and that their advertised.listeners can be reached from here"
    }
}
