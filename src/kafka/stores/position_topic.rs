//! The topic of positions, with a producer of its own that neither stops nor waits for events.

use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use tokio::sync::oneshot::error::TryRecvError;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::compacted_topic::{CompactedTopic, PARTITION, is_forbidden, reason};
use super::value_producer::{Report, ValueProducer};
use crate::kafka::consume::reader::{LATE, Reader, code};
use crate::kafka::error::{Error, TopicFault};
use crate::kafka::options::Options;
use crate::kafka::produce::delivery::Deliveries;
use crate::kafka::time::Time;

/// Time for which librdkafka tries to write a position. A later one is newer.
const WRITE_TIMEOUT_MS: &str = "30000";

const WRITTEN: &str = "written";

/// Codes of requests that these brokers refuse to any client.
const NEVER: [Code; 5] = [
    Code::PolicyViolation,
    Code::InvalidConfig,
    Code::InvalidTopic,
    Code::UnsupportedFeature,
    Code::UnsupportedVersion,
];

/// Codes of a topic that was deleted with its contents: the next start recreates it.
const GONE: [Code; 3] = [Code::UnknownTopic, Code::UnknownTopicOrPartition, Code::UnknownPartition];

/// Settings for writing positions: one after another, in this order, and a refused one stops nothing.
const SETTINGS: [(&str, &str); 5] = [
    ("enable.idempotence", "false"),
    ("enable.gapless.guarantee", "false"),
    ("max.in.flight", "1"),
    ("linger.ms", "0"),
    ("message.timeout.ms", WRITE_TIMEOUT_MS),
];

/// No transaction writes a position.
const ISOLATION: &str = "read_uncommitted";

/// The compacted topic, of one partition, in which each relay stores its position.
///
/// It has a producer of its own. The relay's producer stops for good at a record that is refused, and in a transaction
/// nothing is written before its commit; a position must neither stop nor wait for an event.
pub(crate) struct PositionTopic {
    topic: CompactedTopic,
    producer: ValueProducer,
}

/// Contents of the topic for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Read {
    /// No such topic.
    NoTopic,
    /// The key's last values, oldest first; `None` removes the key.
    Values(Vec<Option<Vec<u8>>>),
}

/// Handle for the outcome of a position that was sent.
#[derive(Debug)]
pub(crate) struct Receipt(Report);

impl PositionTopic {
    /// Creates the producer. `wake` is notified of each answer.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(crate) fn new(options: &Options, name: &str, wake: Deliveries) -> Result<Self, Error> {
        let settings = SETTINGS.map(|(key, value)| (key, value.to_owned()));
        let producer = ValueProducer::new(options, settings.into(), Some(wake))?;
        Ok(Self { topic: CompactedTopic::new(options, name), producer })
    }

    /// Returns its name.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        &self.topic.name
    }

    /// Creates the topic if it is missing.
    ///
    /// # Errors
    /// When the brokers do not create it in time.
    pub(crate) async fn make(&self, patience: Duration) -> Result<(), Error> {
        if self.topic.make(patience).await.map_err(|error| failed(&self.topic, "made", &error, patience))? {
            tracing::info!(topic = self.name(), "created the topic for positions");
        }
        Ok(())
    }

    /// Sends the topic's contents for a key to `answer`, or the error when it cannot be read to its end in
    /// time. Blocks for `patience` at most, and then for a tenth of a second more, in which a consumer closes
    /// and which the receiver need not wait for.
    pub(crate) fn read(
        &self,
        key: &[u8],
        patience: Duration,
        stop: &CancellationToken,
        answer: impl FnOnce(Result<Read, Error>),
    ) {
        match self.topic.reader(ISOLATION) {
            Ok(consumer) => answer(read(&self.topic, &consumer, key, patience, stop)),
            Err(error) => answer(Err(error)),
        }
    }

    /// Reads a key without the means to write. Blocks for `patience` at most.
    ///
    /// # Errors
    /// When it cannot be read to its end in time.
    pub(crate) fn peek(options: &Options, name: &str, key: &[u8], patience: Duration) -> Result<Read, Error> {
        let topic = CompactedTopic::new(options, name);
        read(&topic, &topic.reader(ISOLATION)?, key, patience, &CancellationToken::new())
    }

    /// Hands a value over. It never blocks.
    ///
    /// # Errors
    /// When it can never be sent.
    pub(crate) fn send(&self, key: &[u8], value: &[u8]) -> Result<Receipt, Error> {
        let sent = self.producer.send(self.name(), Some(PARTITION), key, value);
        sent.map(Receipt).map_err(|error| self.failed(WRITTEN, &error))
    }

    /// Returns the outcome of a write as soon as it is known.
    pub(crate) fn outcome(&self, receipt: &mut Receipt) -> Option<Result<(), Error>> {
        match receipt.0.try_recv() {
            Ok(None) => Some(Ok(())),
            Ok(Some(error)) => Some(Err(self.failed(WRITTEN, &error))),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Closed) => Some(Err(self.failed(WRITTEN, &LATE))),
        }
    }

    /// Writes a value, and waits for the brokers' answer.
    ///
    /// # Errors
    /// When it is not acknowledged in time.
    pub(crate) async fn write(&self, key: &[u8], value: &[u8], patience: Duration) -> Result<(), Error> {
        let receipt = self.send(key, value)?;
        match timeout(patience, receipt.0).await {
            Ok(Ok(None)) => Ok(()),
            Ok(Ok(Some(error))) => Err(self.failed(WRITTEN, &error)),
            Ok(Err(_)) | Err(_) => Err(self.failed(WRITTEN, &LATE)),
        }
    }

    fn failed(&self, doing: &'static str, error: &KafkaError) -> Error {
        position_topic_error(self.name(), doing, error)
    }
}

fn read(
    topic: &CompactedTopic,
    consumer: &Reader,
    key: &[u8],
    patience: Duration,
    stop: &CancellationToken,
) -> Result<Read, Error> {
    let (time, failed) = (&Time::new(patience, stop), |error| failed(topic, "read", &error, patience));
    let Some((low, high)) = topic.bounds(consumer, time).map_err(failed)? else { return Ok(Read::NoTopic) };
    topic.last_values(consumer, low..high, key, time).map(Read::Values).map_err(failed)
}

/// Makes the error of an action on the topic that failed or timed out.
fn failed(topic: &CompactedTopic, doing: &'static str, error: &KafkaError, patience: Duration) -> Error {
    let unreachable = topic.unreachable(error, patience);
    unreachable.unwrap_or_else(|| position_topic_error(&topic.name, doing, error))
}

/// Makes the error of an action on the topic; its fault shows whether waiting helps.
pub(in crate::kafka) fn position_topic_error(topic: &str, doing: &'static str, error: &KafkaError) -> Error {
    let code = code(error);
    let is_one_of = |codes: &[Code]| code.is_some_and(|code| codes.contains(&code));
    let fault = if is_forbidden(error) || is_one_of(&NEVER) {
        TopicFault::Refused
    } else if doing == WRITTEN && is_one_of(&GONE) {
        // Some brokers do not know a new topic yet. For a record librdkafka has waited for it.
        TopicFault::Missing
    } else {
        TopicFault::Passing
    };
    Error::PositionTopic { doing, topic: topic.to_owned(), reason: reason(error), fault }
}

impl std::fmt::Debug for PositionTopic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PositionTopic({})", self.name())
    }
}
