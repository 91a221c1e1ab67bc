use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};

use super::error::Error;
use crate::core::{Reason, Surrender};
use crate::dead_letter::{Contents, DeadLetter, Dialect, Origin};

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

    /// Writes one, however long that takes: nothing is given up before it is written.
    pub(crate) async fn write(&self, consumer: &str, surrender: &Surrender) {
        let event = &surrender.event;
        let headers = headers(self.dialect, consumer, surrender);
        loop {
            let mut record: FutureRecord<'_, [u8], [u8]> =
                FutureRecord::to(&self.topic).headers(headers.clone());
            record.key = event.key.as_deref();
            record.payload = event.value.as_deref();
            record.timestamp = event.timestamp_ms;
            match self.producer.send(record, AGAIN_AFTER).await {
                Ok(_) => return,
                Err((error, _)) => tracing::error!(
                    %error,
                    topic = self.topic,
                    "a dead letter is not written: its key waits"
                ),
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
    let letter = DeadLetter {
        origin: Some(Origin {
            topic: event.topic.to_string(),
            partition: Some(event.partition),
            offset: Some(event.offset),
            timestamp_ms: event.timestamp_ms,
        }),
        consumer: Some(consumer.to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(surrender.error.clone()),
        attempts: Some(surrender.attempts),
        failed_at_ms: now_ms(),
        ..DeadLetter::new(dialect, Contents::Record)
    };
    let own = event.headers.iter().fold(OwnedHeaders::new(), |headers, header| {
        headers.insert(Header { key: &header.name, value: header.value.as_deref() })
    });
    let more = letter.headers();
    more.iter().fold(own, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
}

/// Milliseconds since 1970.
fn now_ms() -> Option<i64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_millis()).ok()
}
