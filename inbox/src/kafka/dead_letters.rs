use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::error::Error;
use crate::core::{Reason, Surrender};
use crate::dead_letter::{Contents, DeadLetter, Dialect, Origin};
use crate::event::Event;
use crate::retry_topic::{RetryRecord, is_retry_header};

/// Between two attempts to write a dead letter.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Writes dead letters: the record as it was, with headers that say why.
#[derive(Clone)]
pub struct DeadLetters {
    producer: FutureProducer,
    topic: String,
    dialect: Dialect,
}

impl DeadLetters {
    /// To this topic, with a producer of this configuration. It is made idempotent.
    ///
    /// # Errors
    ///
    /// When librdkafka refuses the configuration.
    pub fn topic(config: &ClientConfig, topic: &str) -> Result<Self, Error> {
        let mut config = config.clone();
        config.set("enable.idempotence", "true");
        if config.get("partitioner").is_none() {
            // As the Java client, so that a key's dead letters are where Java's would be.
            config.set("partitioner", "murmur2_random");
        }
        let producer = config.create().map_err(Error::Create)?;
        Ok(Self { producer, topic: topic.to_owned(), dialect: Dialect::Outboxd })
    }

    /// Whose headers are written; outboxd's unless told otherwise.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Their topic.
    pub(crate) fn name(&self) -> &str {
        &self.topic
    }

    /// Writes one, however long that takes: nothing is given up before it is written.
    pub(crate) async fn write(&self, consumer: &str, surrender: &Surrender) {
        let headers = headers(self.dialect, consumer, surrender);
        let retry = RetryRecord::of(&surrender.event);
        let timestamp_ms = retry.map_or(surrender.event.timestamp_ms, |retry| retry.timestamp_ms);
        self.send(&self.topic, &headers, &surrender.event, timestamp_ms).await;
    }

    /// Writes an event that has failed to a retry topic. Its timestamp is the time of that, so that retention does not delete it
    /// before it is read.
    pub(crate) async fn write_retry(
        &self,
        topic: &str,
        surrender: &Surrender,
        attempts: u32,
        wait: Duration,
    ) {
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let not_before = now_ms().unwrap_or_default().saturating_add(wait);
        let record = RetryRecord::after(&surrender.event, attempts, not_before);
        let headers = owned(record.headers(&surrender.event, &surrender.error).iter());
        self.send(topic, &headers, &surrender.event, None).await;
    }

    async fn send(&self, topic: &str, headers: &OwnedHeaders, event: &Event, timestamp_ms: Option<i64>) {
        loop {
            let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(topic).headers(headers.clone());
            record.key = event.key.as_deref();
            record.payload = event.value.as_deref();
            record.timestamp = timestamp_ms;
            match self.producer.send(record, AGAIN_AFTER).await {
                Ok(_) => return,
                Err((error, _)) => {
                    tracing::error!(%error, topic, "an event that failed is not written yet: its key waits");
                }
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// The record's own, then the dialect's.
fn headers(dialect: Dialect, consumer: &str, surrender: &Surrender) -> OwnedHeaders {
    let event = &surrender.event;
    let reason = match surrender.reason {
        Reason::Exhausted => "exhausted",
        Reason::Poison => "poison",
        Reason::Crashed => "crashed",
    };
    let origin = RetryRecord::after(event, surrender.attempts, 0);
    let letter = DeadLetter {
        origin: Some(Origin {
            topic: origin.topic,
            partition: Some(origin.partition),
            offset: Some(origin.offset),
            timestamp_ms: origin.timestamp_ms,
        }),
        consumer: Some(consumer.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(surrender.error.clone()),
        attempts: Some(surrender.attempts),
        failed_at_ms: now_ms(),
        ..DeadLetter::new(dialect, Contents::Record)
    };
    let is_retried = RetryRecord::of(event).is_some();
    let own = owned(event.headers.iter().filter(|header| !is_retried || !is_retry_header(&header.name)));
    let more = letter.headers();
    more.iter().fold(own, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}

fn owned<'h>(headers: impl Iterator<Item = &'h crate::event::Header>) -> OwnedHeaders {
    headers.fold(OwnedHeaders::new(), |headers, header| {
        headers.insert(Header { key: &header.name, value: header.value.as_deref() })
    })
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> Option<i64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_millis()).ok()
}
