//! Writer of dead letters and of retry topics.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::error::Error;
use super::producer::{Producer, Record};
use crate::core::{Reason, Surrender};
use crate::dead_letter::{Contents, DeadLetter, Dialect, Origin, VALUE_LEFT_OUT};
use crate::event::Event;
use crate::retry_topic::{RetryRecord, is_retry_header};

/// Pause between two attempts to write a dead letter.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Writer of dead letters: the record as it was, with headers that describe the failure.
#[derive(Clone)]
pub struct DeadLetters {
    producer: Arc<Producer>,
    topic: String,
    dialect: Dialect,
}

impl DeadLetters {
    /// Returns a writer to this topic, with a producer of this configuration. The producer is made idempotent.
    ///
    /// # Errors
    ///
    /// If librdkafka refuses the configuration.
    pub fn topic(config: &ClientConfig, topic: &str) -> Result<Self, crate::Error> {
        let mut config = config.clone();
        config.set("enable.idempotence", "true");
        // The service may use one configuration for all clients; librdkafka warns of it in a producer.
        config.remove("group.id");
        if config.get("partitioner").is_none() {
            // As in the Java client, so that a key's dead letters are in the same partition as Java's.
            config.set("partitioner", "murmur2_random");
        }
        let producer = Producer::new(&config).map_err(Error::Create)?;
        Ok(Self { producer: Arc::new(producer), topic: topic.to_owned(), dialect: Dialect::Outboxd })
    }

    /// Sets the dialect of the headers; outboxd's by default.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.dialect = dialect;
        self
    }

    /// Returns the name of the dead-letter topic.
    pub(crate) fn name(&self) -> &str {
        &self.topic
    }

    /// Writes a dead letter, and retries until it is written: no event is given up before that.
    pub(crate) async fn write(&self, consumer: &str, surrender: &Surrender) {
        let event = &surrender.event;
        let is_retried = RetryRecord::of(event).is_some();
        let own = event.headers.iter().filter(|header| !is_retried || !is_retry_header(&header.name));
        let own: Vec<&crate::event::Header> = own.filter(|header| header.name != VALUE_LEFT_OUT).collect();
        let more = headers(self.dialect, consumer, surrender);
        let mut form = Form::Whole;
        while !self.send(&self.topic, form, &own, &more, event).await {
            // A dead letter must not block its key for ever. The record itself stays where it was read.
            form = form.smaller();
            let (topic, partition, offset) = (&*event.topic, event.partition, event.offset);
            tracing::warn!(topic, partition, offset, ?form, "a dead letter is too large; sending less of it");
        }
    }

    /// Writes an event that has failed to a retry topic. Returns whether the event fits.
    pub(crate) async fn write_retry(
        &self,
        topic: &str,
        surrender: &Surrender,
        attempts: u32,
        wait: Duration,
    ) -> bool {
        let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
        let not_before = now_ms().unwrap_or_default().saturating_add(wait);
        let record = RetryRecord::after(&surrender.event, attempts, not_before);
        let headers = record.headers(&surrender.event, &surrender.error);
        let own: Vec<&crate::event::Header> = headers.iter().collect();
        self.send(topic, Form::Whole, &own, &[], &surrender.event).await
    }

    /// Sends the record until the brokers have acknowledged it. Returns `false` if it is too large for them.
    ///
    /// Its timestamp is the current time: by the event's timestamp, retention could delete it before it is read.
    async fn send(
        &self,
        to: &str,
        form: Form,
        own: &[&crate::event::Header],
        more: &[(&'static str, Vec<u8>)],
        event: &Event,
    ) -> bool {
        loop {
            let sent = self.producer.send(|report| {
                let mut record: Record<'_> = BaseRecord::with_opaque_to(to, report);
                record.headers = Some(form.headers(own, more, event));
                record.key = event.key.as_deref().filter(|_| form < Form::WithoutKey);
                record.payload = event.value.as_deref().filter(|_| form < Form::WithoutValue);
                record
            });
            match sent.await {
                Ok(()) => return true,
                Err(error) if is_too_large(&error) && form < Form::WithoutKey => return false,
                Err(error) => {
                    let (topic, partition, offset) = (&*event.topic, event.partition, event.offset);
                    tracing::error!(%error, topic, partition, offset, to, "cannot write a dead letter; retrying");
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

/// Returns the dialect's headers about the failure.
fn headers(dialect: Dialect, consumer: &str, surrender: &Surrender) -> Vec<(&'static str, Vec<u8>)> {
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
    letter.headers()
}

/// Part of an event that is sent. The record itself stays where it was read, and the headers name that place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Whole,
    WithoutValue,
    /// With its short headers only, such as its id.
    WithoutLongHeaders,
    WithoutKey,
}

/// Maximum length of a header of an event whose dead letter was too large, in bytes of name and value.
const HEADER_BYTES_MAX: usize = 300;

/// Maximum length of all these headers together: an event can have thousands of short ones.
const HEADERS_BYTES_MAX: usize = 4096;

impl Form {
    const fn smaller(self) -> Self {
        match self {
            Self::Whole => Self::WithoutValue,
            Self::WithoutValue => Self::WithoutLongHeaders,
            Self::WithoutLongHeaders | Self::WithoutKey => Self::WithoutKey,
        }
    }

    /// Returns the event's own headers, the size of an omitted value, and the headers about the failure.
    fn headers(
        self,
        own: &[&crate::event::Header],
        more: &[(&'static str, Vec<u8>)],
        event: &Event,
    ) -> OwnedHeaders {
        let length = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        let mut left = HEADERS_BYTES_MAX;
        let fits = |header: &&&crate::event::Header| {
            let bytes = header.name.len() + length(&header.value);
            if self < Self::WithoutLongHeaders {
                return true;
            }
            let fits = bytes <= HEADER_BYTES_MAX && bytes <= left;
            left -= if fits { bytes } else { 0 };
            fits
        };
        let own = own.iter().filter(fits).fold(OwnedHeaders::new(), |headers, header| {
            headers.insert(Header { key: &header.name, value: header.value.as_deref() })
        });
        let left_out = length(&event.value).to_string();
        let own = match self {
            Self::Whole => own,
            _ => own.insert(Header { key: VALUE_LEFT_OUT, value: Some(&left_out) }),
        };
        more.iter().fold(own, |headers, (key, value)| headers.insert(Header { key, value: Some(value) }))
    }
}

fn is_too_large(error: &KafkaError) -> bool {
    error.rdkafka_error_code() == Some(RDKafkaErrorCode::MessageSizeTooLarge)
}

/// Returns the current time in milliseconds since 1970.
pub(crate) fn now_ms() -> Option<i64> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since_1970.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::event::{Header as Own, Headers};

    /// Invariant: each form of a dead letter is smaller than the one before, and keeps the id and the reason.
    #[test]
    fn a_smaller_dead_letter_keeps_its_id_and_its_reason() {
        let header = |name: &str, value: &str| Own { name: name.to_owned(), value: Some(value.into()) };
        let own = [header("id", "a-1"), header("long", &"x".repeat(1000))];
        let event = Event {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            key: None,
            value: Some(vec![0; 77]),
            headers: Headers::default(),
            timestamp_ms: None,
        };
        let names = |form: Form| {
            let headers =
                form.headers(&own.iter().collect::<Vec<_>>(), &[("reason", b"poison".to_vec())], &event);
            headers.iter().map(|header| header.key.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(Form::Whole), ["id", "long", "reason"]);
        assert_eq!(names(Form::WithoutValue), ["id", "long", VALUE_LEFT_OUT, "reason"]);
        assert_eq!(names(Form::WithoutLongHeaders), ["id", VALUE_LEFT_OUT, "reason"]);
        assert_eq!(Form::WithoutLongHeaders.smaller(), Form::WithoutKey);
    }

    #[test]
    fn thousands_of_short_headers_do_not_make_a_dead_letter_too_large_for_ever() {
        let own: Vec<Own> = std::iter::once(("id".to_owned(), "a-1".to_owned()))
            .chain((0..5_000).map(|n| (format!("header-{n}"), "x".repeat(200))))
            .map(|(name, value)| Own { name, value: Some(value.into()) })
            .collect();
        let own: Vec<_> = own.iter().collect();
        let event = Event {
            topic: "t".into(),
            partition: 0,
            offset: 0,
            key: None,
            value: None,
            headers: Headers::default(),
            timestamp_ms: None,
        };
        let headers = Form::WithoutKey.headers(&own, &[("reason", b"poison".to_vec())], &event);
        let bytes: usize =
            headers.iter().map(|header| header.key.len() + header.value.map_or(0, <[u8]>::len)).sum();
        assert!(bytes < HEADERS_BYTES_MAX + 200, "{bytes}");
        assert_eq!(headers.get(0).key, "id");
    }
}
