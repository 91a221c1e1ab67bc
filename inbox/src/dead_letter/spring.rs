//! Headers of Spring for Apache Kafka. Numbers are big-endian, as Java's `ByteBuffer` writes them.
//!
//! # References
//!
//! `org.springframework.kafka.listener.DeadLetterRecordManager` (before 4.1 `DeadLetterPublishingRecoverer`): the dead
//! letter has the record's key, value and headers, and a timestamp of its own. A record that was given up several times has
//! a header for each; the last one counts.

use super::field::{BigEndian32, BigEndian64};
use super::{Contents, DeadLetter, Dialect, Fields, Origin, push};

pub(super) const PREFIX: &str = "kafka_dlt-";
/// Prefix of the headers that Spring's retry topics add.
pub(super) const RETRY_PREFIX: &str = "retry_topic-";

const TOPIC: &str = "kafka_dlt-original-topic";
const PARTITION: &str = "kafka_dlt-original-partition";
const OFFSET: &str = "kafka_dlt-original-offset";
const TIMESTAMP: &str = "kafka_dlt-original-timestamp";
const GROUP: &str = "kafka_dlt-original-consumer-group";
const EXCEPTION: &str = "kafka_dlt-exception-fqcn";
const KEY_EXCEPTION: &str = "kafka_dlt-key-exception-fqcn";
const CAUSE: &str = "kafka_dlt-exception-cause-fqcn";
const MESSAGE: &str = "kafka_dlt-exception-message";
const KEY_MESSAGE: &str = "kafka_dlt-key-exception-message";
const STACK_TRACE: &str = "kafka_dlt-exception-stacktrace";
const KEY_STACK_TRACE: &str = "kafka_dlt-key-exception-stacktrace";
const ATTEMPTS: &str = "retry_topic-attempts";

pub(super) fn read<'h>(
    fields: &Fields<impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone>,
) -> DeadLetter {
    let long = |name| fields.field::<BigEndian64>(name).map(|number| number.0);
    let text = |name| fields.field::<String>(name);
    let origin = text(TOPIC).map(|topic| Origin {
        topic,
        partition: fields.field::<BigEndian32>(PARTITION).map(|number| number.0),
        offset: long(OFFSET),
        timestamp_ms: long(TIMESTAMP),
    });
    DeadLetter {
        origin,
        consumer: text(GROUP),
        // The outer exception only reports that a listener failed.
        exception: text(CAUSE).or_else(|| text(EXCEPTION)).or_else(|| text(KEY_EXCEPTION)),
        message: text(MESSAGE).or_else(|| text(KEY_MESSAGE)),
        details: text(STACK_TRACE).or_else(|| text(KEY_STACK_TRACE)),
        attempts: fields.bytes(ATTEMPTS).and_then(attempts),
        ..DeadLetter::new(Dialect::Spring, Contents::Record)
    }
}

/// Reads a count of 4 bytes, or of 1 byte as old versions wrote it.
fn attempts(bytes: &[u8]) -> Option<u32> {
    match bytes {
        [one] => Some(u32::from(*one)),
        _ => Some(u32::from_be_bytes(bytes.try_into().ok()?)),
    }
}

pub(super) fn headers(letter: &DeadLetter) -> Vec<(&'static str, Vec<u8>)> {
    let mut headers = Vec::new();
    push(&mut headers, EXCEPTION, letter.exception.clone());
    push(&mut headers, MESSAGE, letter.message.clone());
    push(&mut headers, STACK_TRACE, letter.details.clone());
    if let Some(Origin { topic, partition, offset, timestamp_ms }) = &letter.origin {
        push(&mut headers, TOPIC, Some(topic.clone()));
        push(&mut headers, PARTITION, partition.map(BigEndian32));
        push(&mut headers, OFFSET, offset.map(BigEndian64));
        push(&mut headers, TIMESTAMP, timestamp_ms.map(BigEndian64));
    }
    push(&mut headers, GROUP, letter.consumer.clone());
    headers.extend(letter.attempts.map(|attempts| (ATTEMPTS, attempts.to_be_bytes().to_vec())));
    headers
}
