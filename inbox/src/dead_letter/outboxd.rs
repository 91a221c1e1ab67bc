//! Headers of outboxd, all of them text. A consumer's dead letter has the record's key, value and headers, and a timestamp
//! of its own.
//!
//! The relay writes the same fields in Connect's headers, and adds `outboxd.errors.reason` and the event's position in the
//! WAL.

use super::field::Decimal;
use super::{Contents, DeadLetter, Dialect, Fields, Origin, VALUE_LEFT_OUT, connect, push};

pub(super) const PREFIX: &str = "outboxd.errors.";

const TOPIC: &str = "outboxd.errors.topic";
const PARTITION: &str = "outboxd.errors.partition";
const OFFSET: &str = "outboxd.errors.offset";
const TIMESTAMP: &str = "outboxd.errors.timestamp";
const CONSUMER: &str = "outboxd.errors.consumer";
const REASON: &str = "outboxd.errors.reason";
const EXCEPTION: &str = "outboxd.errors.exception";
const MESSAGE: &str = "outboxd.errors.message";
const DETAILS: &str = "outboxd.errors.details";
const ATTEMPTS: &str = "outboxd.errors.attempts";
const FAILED_AT: &str = "outboxd.errors.failed.at";
/// Header of the relay only.
const COMMIT_LSN: &str = "outboxd.errors.commit.lsn";

/// Reasons of the relay that concern a row, of which no record was made.
const ROW_REASONS: [&str; 3] = ["reading", "routing", "conversion"];

pub(super) fn read<'h>(
    fields: &Fields<impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone>,
) -> DeadLetter {
    let reason: Option<String> = fields.field(REASON);
    if fields.has(COMMIT_LSN) || fields.has(VALUE_LEFT_OUT) && !fields.has(TOPIC) {
        let contents = relays_contents(fields.has(VALUE_LEFT_OUT), reason.as_deref());
        return DeadLetter { dialect: Dialect::Outboxd, contents, reason, ..connect::read(fields) };
    }
    let long = |name| fields.field::<Decimal<i64>>(name).map(|number| number.0);
    let origin = fields.field(TOPIC).map(|topic| Origin {
        topic,
        partition: fields.field::<Decimal<i32>>(PARTITION).map(|number| number.0),
        offset: long(OFFSET),
        timestamp_ms: long(TIMESTAMP),
    });
    DeadLetter {
        origin,
        consumer: fields.field(CONSUMER),
        reason,
        exception: fields.field(EXCEPTION),
        message: fields.field(MESSAGE),
        details: fields.field(DETAILS),
        attempts: fields.field::<Decimal<u32>>(ATTEMPTS).map(|number| number.0),
        failed_at_ms: long(FAILED_AT),
        ..DeadLetter::new(Dialect::Outboxd, Contents::Record)
    }
}

fn relays_contents(value_left_out: bool, reason: Option<&str>) -> Contents {
    if value_left_out {
        Contents::ValueLeftOut
    } else if reason.is_some_and(|reason| ROW_REASONS.contains(&reason)) {
        Contents::Row
    } else {
        Contents::Record
    }
}

pub(super) fn headers(letter: &DeadLetter) -> Vec<(&'static str, Vec<u8>)> {
    let mut headers = Vec::new();
    if let Some(Origin { topic, partition, offset, timestamp_ms }) = &letter.origin {
        push(&mut headers, TOPIC, Some(topic.clone()));
        push(&mut headers, PARTITION, partition.map(Decimal));
        push(&mut headers, OFFSET, offset.map(Decimal));
        push(&mut headers, TIMESTAMP, timestamp_ms.map(Decimal));
    }
    push(&mut headers, CONSUMER, letter.consumer.clone());
    push(&mut headers, REASON, letter.reason.clone());
    push(&mut headers, EXCEPTION, letter.exception.clone());
    push(&mut headers, MESSAGE, letter.message.clone());
    push(&mut headers, DETAILS, letter.details.clone());
    push(&mut headers, ATTEMPTS, letter.attempts.map(Decimal));
    push(&mut headers, FAILED_AT, letter.failed_at_ms.map(Decimal));
    headers
}
