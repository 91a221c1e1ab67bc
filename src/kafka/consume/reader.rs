//! Consumers that read existing records, without waiting for new ones.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::metadata::MetadataPartition;

use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::error::Error;
use crate::kafka::options::Options;

const SETTINGS: [(&str, &str); 4] = [
    // Asked for by the interface; nothing is assigned or committed through a group.
    ("group.id", "outboxd"),
    ("enable.auto.commit", "false"),
    // Reports the end of a partition also after aborted transactions.
    ("enable.partition.eof", "true"),
    // Only the ends are requested, not further records.
    ("fetch.wait.max.ms", "10"),
];

/// Error for an answer that takes too long.
pub(in crate::kafka) const LATE: KafkaError = KafkaError::MessageConsumption(Code::OperationTimedOut);

/// A consumer that stores the reason of its failed connections.
pub(in crate::kafka) type Reader = BaseConsumer<ConnectionFailures>;

/// Creates a consumer with this `isolation.level`.
pub(in crate::kafka) fn reader(
    options: &Options,
    isolation: &str,
    failures: &ConnectionFailures,
) -> Result<Reader, Error> {
    let mut config = client_config(options);
    for (key, value) in SETTINGS {
        config.set(key, value);
    }
    config.set("isolation.level", isolation);
    consumer(options, &config, failures)
}

/// Creates a consumer with these settings, and sets its token if it needs one. Blocks for some seconds at most while there is no
/// token yet.
pub(in crate::kafka) fn consumer(
    options: &Options,
    config: &ClientConfig,
    failures: &ConnectionFailures,
) -> Result<Reader, Error> {
    let consumer: Reader = config.create_with_context(failures.clone()).map_err(Error::settings)?;
    if options.tokens.is_some() {
        serve_token(&consumer);
    }
    Ok(consumer)
}

/// Serves librdkafka's request for a token, which is the first event of a client. Until then no other request is answered. Nothing
/// may be assigned.
pub(in crate::kafka) fn serve_token(consumer: &BaseConsumer<impl ConsumerContext>) {
    drop(consumer.poll(Duration::ZERO));
}

/// Returns the partitions of a topic; none when there is no such topic. A consumer's request does not create
/// it.
pub(in crate::kafka) fn partition_ids(
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

/// Returns the error for unreachable brokers at `servers`, when that is why a request had no answer within
/// `patience`.
pub(in crate::kafka) fn unreachable(
    servers: &str,
    failures: &ConnectionFailures,
    error: &KafkaError,
    patience: Duration,
) -> Option<Error> {
    use Code::{AllBrokersDown, Authentication, BrokerTransportFailure, OperationTimedOut};
    let code = code(error)?;
    let reason = match code {
        AllBrokersDown | Authentication | BrokerTransportFailure => {
            failures.last().unwrap_or_else(|| code.to_string())
        }
        // It may also be slow.
        OperationTimedOut => failures.last()?,
        _ => return None,
    };
    Some(Error::Unreachable { servers: servers.to_owned(), seconds: patience.as_secs(), reason })
}

/// Returns the brokers' code, also of an administrator's request.
pub(in crate::kafka) fn code(error: &KafkaError) -> Option<Code> {
    match error {
        KafkaError::AdminOp(code) => Some(*code),
        other => other.rdkafka_error_code(),
    }
}
