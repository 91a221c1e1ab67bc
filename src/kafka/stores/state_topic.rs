//! The topic with the state of each slot's last Kafka transaction.

use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tokio_util::sync::CancellationToken;

use super::compacted_topic::{CompactedTopic, PARTITION, is_forbidden, reason};
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::LATE;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::time::Time;

/// Longest wait for an open transaction in the topic: outboxd's own are ended by now, and those of other
/// producers take moments.
const UNDECIDED_PATIENCE: Duration = Duration::from_secs(10);

/// The compacted topic, of one partition, in which each slot has the state of its last Kafka transaction.
#[derive(Debug, Clone)]
pub struct StateTopic(CompactedTopic);

impl StateTopic {
    /// Opens the topic of this name.
    #[must_use]
    pub fn new(options: &Options, name: &str) -> Self {
        Self(CompactedTopic::new(options, name))
    }

    /// Creates the topic if it is missing.
    ///
    /// # Errors
    /// When the brokers do not create it in time.
    pub async fn make(&self, patience: Duration) -> Result<(), Error> {
        if self.0.make(patience).await.map_err(|error| self.unanswered("made", &error, patience))? {
            tracing::info!(topic = self.0.name, "created the topic for the state of exactly_once");
        }
        Ok(())
    }

    /// Removes the value of a key, and verifies the removal. Blocks for twice `patience` at most.
    ///
    /// # Errors
    /// When it is not removed in time.
    pub fn forget(&self, key: &[u8], patience: Duration, stop: &CancellationToken) -> Result<(), Error> {
        let mut config = client_config(&self.0.options);
        config.set("message.timeout.ms", patience.as_millis().max(1).to_string());
        config.set("enable.gapless.guarantee", "false");
        let failures = ConnectionFailures::default();
        let producer: BaseProducer<_> = config.create_with_context(failures).map_err(Error::settings)?;
        let tombstone = BaseRecord::<[u8], [u8]>::to(&self.0.name).partition(PARTITION).key(key);
        producer.send(tombstone).map_err(|(error, _)| self.failed("written", &error))?;
        producer.flush(patience).map_err(|error| self.failed("written", &error))?;
        match self.read(key, patience, stop)? {
            Stored::Value(_) => Err(self.failed("written", &LATE)),
            Stored::Nothing | Stored::NoTopic => Ok(()),
        }
    }

    /// Returns the last committed value of a key. Waits for records that other producers have written and not
    /// committed yet: an open transaction hides the committed records after it. Blocks for `patience` at most.
    ///
    /// # Errors
    /// When it cannot be read to its end in time.
    pub fn read(&self, key: &[u8], patience: Duration, stop: &CancellationToken) -> Result<Stored, Error> {
        let (time, failed) = (Time::new(patience, stop), |error| self.unanswered("read", &error, patience));
        let consumer = self.0.reader("read_committed")?;
        let everything = self.0.reader("read_uncommitted")?;
        let end = |of| self.0.bounds(of, &time).map_err(failed);
        let Some((low, high)) = end(&everything)? else { return Ok(Stored::NoTopic) };
        let asked = Instant::now();
        while end(&consumer)?.is_none_or(|(_, decided)| decided < high) {
            if time.is_over() || asked.elapsed() > UNDECIDED_PATIENCE {
                return Err(Error::Undecided { topic: self.0.name.clone(), partition: PARTITION });
            }
        }
        let values = self.0.last_values(&consumer, low..high, key, &time).map_err(failed)?;
        Ok(values.into_iter().last().flatten().map_or(Stored::Nothing, Stored::Value))
    }

    /// Makes the error of an action that failed or timed out.
    fn unanswered(&self, doing: &'static str, error: &KafkaError, patience: Duration) -> Error {
        self.0.unreachable(error, patience).unwrap_or_else(|| self.failed(doing, error))
    }

    fn failed(&self, doing: &'static str, error: &KafkaError) -> Error {
        let (topic, refused) = (self.0.name.clone(), is_forbidden(error));
        Error::StateTopic { doing, topic, reason: reason(error), refused }
    }
}

/// Contents of the topic for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// No such topic.
    NoTopic,
    /// No value.
    Nothing,
    /// The last one.
    Value(Vec<u8>),
}
