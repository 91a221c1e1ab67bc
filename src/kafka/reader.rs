//! Consumers that read what is there, and wait for nothing.

use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::metadata::MetadataPartition;

use super::client_config::client_config;
use super::connection_failures::ConnectionFailures;
use super::error::Error;
use super::options::Options;

const SETTINGS: [(&str, &str); 4] = [
    // Asked for by the interface; nothing is assigned or committed through a group.
    ("group.id", "outboxd"),
    ("enable.auto.commit", "false"),
    // How the end of a partition is known also where transactions were aborted.
    ("enable.partition.eof", "true"),
    // The ends are asked for, not what may still come.
    ("fetch.wait.max.ms", "10"),
];

/// A consumer that keeps why its connections fail.
pub(super) type Reader = BaseConsumer<ConnectionFailures>;

/// A consumer with this `isolation.level`.
pub(super) fn reader(
    options: &Options,
    isolation: &str,
    failures: &ConnectionFailures,
) -> Result<Reader, Error> {
    let mut config = client_config(options);
    for (key, value) in SETTINGS {
        config.set(key, value);
    }
    config.set("isolation.level", isolation).create_with_context(failures.clone()).map_err(Error::settings)
}

/// The partitions of a topic; none when there is no such topic. A consumer's question does not make it.
pub(super) fn partition_ids(
    consumer: &BaseConsumer<impl ConsumerContext>,
    topic: &str,
    patience: Duration,
) -> KafkaResult<Vec<i32>> {
    let metadata = consumer.fetch_metadata(Some(topic), patience)?;
    let Some(topic) = metadata.topics().iter().find(|answer| answer.name() == topic) else {
        return Ok(Vec::new());
    };
    match topic.error().map(Code::from) {
        None => Ok(topic.partitions().iter().map(MetadataPartition::id).collect()),
        Some(Code::UnknownTopicOrPartition | Code::UnknownTopic) => Ok(Vec::new()),
        Some(code) => Err(KafkaError::MetadataFetch(code)),
    }
}

/// Says that the brokers at `servers` cannot be reached, when that is why a question had no answer within `patience`.
pub(super) fn unreachable(
    servers: &str,
    failures: &ConnectionFailures,
    error: &KafkaError,
    patience: Duration,
) -> Option<Error> {
    use Code::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut};
    let code = code(error)?;
    let reason = match code {
        AllBrokersDown | BrokerTransportFailure => failures.last().unwrap_or_else(|| code.to_string()),
        // It may also be slow.
        OperationTimedOut => failures.last()?,
        _ => return None,
    };
    Some(Error::Unreachable { servers: servers.to_owned(), seconds: patience.as_secs(), reason })
}

/// The brokers' code, also of what an administrator asks for.
pub(super) fn code(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}
