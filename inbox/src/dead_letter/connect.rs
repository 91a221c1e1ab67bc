//! Headers of Kafka Connect, all of them text.
//!
//! # References
//!
//! `org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter`: the dead letter has the record's key, value, headers
//! and timestamp.

use super::field::Decimal;
use super::{Contents, DeadLetter, Dialect, Fields, Origin, push};

pub(super) const PREFIX: &str = "__connect.errors.";

const TOPIC: &str = "__connect.errors.topic";
const PARTITION: &str = "__connect.errors.partition";
const OFFSET: &str = "__connect.errors.offset";
const CONNECTOR: &str = "__connect.errors.connector.name";
const STAGE: &str = "__connect.errors.stage";
const EXCEPTION: &str = "__connect.errors.exception.class.name";
const MESSAGE: &str = "__connect.errors.exception.message";
const STACK_TRACE: &str = "__connect.errors.exception.stacktrace";

pub(super) fn read<'h>(
    fields: &Fields<impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone>,
) -> DeadLetter {
    let number = |name| fields.field::<Decimal<i32>>(name).map(|number| number.0);
    let origin = fields.field(TOPIC).map(|topic| Origin {
        topic,
        partition: number(PARTITION),
        offset: fields.field::<Decimal<i64>>(OFFSET).map(|number| number.0),
        timestamp_ms: None,
    });
    DeadLetter {
        origin,
        consumer: fields.field(CONNECTOR),
        reason: fields.field(STAGE),
        exception: fields.field(EXCEPTION),
        message: fields.field(MESSAGE),
        details: fields.field(STACK_TRACE),
        ..DeadLetter::new(Dialect::Connect, Contents::Record)
    }
}

pub(super) fn headers(letter: &DeadLetter) -> Vec<(&'static str, Vec<u8>)> {
    let mut headers = Vec::new();
    if let Some(Origin { topic, partition, offset, .. }) = &letter.origin {
        push(&mut headers, TOPIC, Some(topic.clone()));
        push(&mut headers, PARTITION, partition.map(Decimal));
        push(&mut headers, OFFSET, offset.map(Decimal));
    }
    push(&mut headers, CONNECTOR, letter.consumer.clone());
    push(&mut headers, STAGE, letter.reason.clone());
    push(&mut headers, EXCEPTION, letter.exception.clone());
    push(&mut headers, MESSAGE, letter.message.clone());
    push(&mut headers, STACK_TRACE, letter.details.clone());
    headers
}
