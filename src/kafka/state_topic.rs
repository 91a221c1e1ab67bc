use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::{Message as _, Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use super::producer::client_config;
use super::reader::{partition_ids, reader};
use super::time::Time;
use super::{Error, Options};

/// The one partition that is used.
const PARTITION: i32 = 0;

/// How far from its end the topic is read at first, and how much further each time. It is compacted, but not at once.
const TAIL: i64 = 200;
const FURTHER: i64 = 16;

/// How long an open transaction in the topic is waited for: ours are ended by now, and those of others take moments.
const UNDECIDED_PATIENCE: Duration = Duration::from_secs(10);

const LATE: KafkaError = KafkaError::MessageConsumption(Code::OperationTimedOut);

/// How the topic is made. Small segments, because the last one is never compacted.
const PROPERTIES: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];

/// The compacted topic, of one partition, in which each slot has the state of its last Kafka transaction.
#[derive(Debug, Clone)]
pub struct StateTopic {
    options: Options,
    name: String,
}

impl StateTopic {
    /// The topic of this name.
    #[must_use]
    pub fn new(options: &Options, name: &str) -> Self {
        Self { options: options.clone(), name: name.to_owned() }
    }

    /// Makes the topic, unless it is there.
    ///
    /// # Errors
    /// When the brokers do not make it in time.
    pub async fn make(&self, patience: Duration) -> Result<(), Error> {
        let failed = |error: &KafkaError| self.failed("made", error);
        let admin: AdminClient<DefaultClientContext> =
            client_config(&self.options).create().map_err(Error::Settings)?;
        let mut topic = NewTopic::new(&self.name, 1, TopicReplication::Fixed(-1));
        topic.config = PROPERTIES.to_vec();
        let options = AdminOptions::new().request_timeout(Some(patience)).operation_timeout(Some(patience));
        let answers = admin.create_topics([&topic], &options).await.map_err(|error| failed(&error))?;
        match answers.into_iter().next() {
            Some(Err((_, Code::TopicAlreadyExists))) | None => Ok(()),
            Some(Ok(_)) => {
                tracing::info!(topic = self.name, "made the topic of exactly-once's state");
                Ok(())
            }
            Some(Err((_, code))) => Err(failed(&KafkaError::AdminOp(code))),
        }
    }

    /// Takes the value of a key away, and looks whether it is gone. Blocks for twice `patience` at most.
    ///
    /// # Errors
    /// When it is not gone in time.
    pub fn forget(&self, key: &[u8], patience: Duration, stop: &CancellationToken) -> Result<(), Error> {
        let mut config = client_config(&self.options);
        config.set("message.timeout.ms", patience.as_millis().max(1).to_string());
        config.set("enable.gapless.guarantee", "false");
        let producer: BaseProducer = config.create().map_err(Error::Settings)?;
        let tombstone = BaseRecord::<[u8], [u8]>::to(&self.name).partition(PARTITION).key(key);
        producer.send(tombstone).map_err(|(error, _)| self.failed("written", &error))?;
        producer.flush(patience).map_err(|error| self.failed("written", &error))?;
        match self.read(key, patience, stop)? {
            Stored::Value(_) => Err(self.failed("written", &LATE)),
            Stored::Nothing | Stored::NoTopic => Ok(()),
        }
    }

    /// The last committed value of a key. What others have written, and not committed yet, is waited for: an open transaction
    /// hides what was committed behind it. Blocks for `patience` at most.
    ///
    /// # Errors
    /// When it cannot be read to its end in time.
    pub fn read(&self, key: &[u8], patience: Duration, stop: &CancellationToken) -> Result<Stored, Error> {
        let time = Time::new(patience, stop);
        let consumer = reader(&self.options, "read_committed")?;
        if !self.is_there(&consumer, &time)? {
            return Ok(Stored::NoTopic);
        }
        let (low, high) = self.bounds(&reader(&self.options, "read_uncommitted")?, &time)?;
        let asked = Instant::now();
        while self.bounds(&consumer, &time)?.1 < high {
            if time.is_over() || asked.elapsed() > UNDECIDED_PATIENCE {
                return Err(Error::Undecided { topic: self.name.clone(), partition: PARTITION });
            }
        }
        let mut distance = TAIL;
        loop {
            let from = high.saturating_sub(distance).max(low);
            if let Some(value) = self.last_from(&consumer, from, key, &time)? {
                return Ok(value.map_or(Stored::Nothing, Stored::Value));
            }
            if from == low {
                return Ok(Stored::Nothing);
            }
            distance = distance.saturating_mul(FURTHER);
        }
    }

    /// Of the partition, as far as the consumer may see it.
    fn bounds(&self, consumer: &BaseConsumer, time: &Time<'_>) -> Result<(i64, i64), Error> {
        let bounds = time.insist(|slice| consumer.fetch_watermarks(&self.name, PARTITION, slice));
        bounds.map_err(|error| self.failed("read", &error))
    }

    /// The last value of the key from this offset on, if the key is there.
    fn last_from(
        &self,
        consumer: &BaseConsumer,
        from: i64,
        key: &[u8],
        time: &Time<'_>,
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        let failed = |error: &KafkaError| self.failed("read", error);
        let mut assignment = TopicPartitionList::new();
        assignment
            .add_partition_offset(&self.name, PARTITION, Offset::Offset(from))
            .map_err(|error| failed(&error))?;
        consumer.assign(&assignment).map_err(|error| failed(&error))?;
        let (mut last, mut trouble) = (None, None);
        loop {
            match consumer.poll(time.slice()) {
                Some(Ok(message)) if message.key() == Some(key) => {
                    last = Some(message.payload().map(<[u8]>::to_vec));
                }
                Some(Ok(_)) | None => {}
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok(last),
                // Most heal by themselves, and librdkafka tries again.
                Some(Err(error)) => trouble = Some(error),
            }
            if time.is_over() {
                return Err(failed(&trouble.unwrap_or(LATE)));
            }
        }
    }

    fn is_there(&self, consumer: &BaseConsumer, time: &Time<'_>) -> Result<bool, Error> {
        let partitions = time.insist(|slice| partition_ids(consumer, &self.name, slice));
        Ok(!partitions.map_err(|error| self.failed("read", &error))?.is_empty())
    }

    fn failed(&self, doing: &'static str, error: &KafkaError) -> Error {
        let code = error.rdkafka_error_code();
        let refused = matches!(code, Some(Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed));
        let reason = code.map_or_else(|| error.to_string(), |code| code.to_string());
        Error::StateTopic { doing, topic: self.name.clone(), reason, refused }
    }
}

/// What the topic holds for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stored {
    /// There is no such topic.
    NoTopic,
    /// No value.
    Nothing,
    /// The last one.
    Value(Vec<u8>),
}
