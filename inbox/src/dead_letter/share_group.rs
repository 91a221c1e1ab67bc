//! Headers of Kafka's share groups, all of them text.
//!
//! # References
//!
//! KIP-1191; `org.apache.kafka.server.share.dlq.ShareGroupDLQStateManager` of Kafka 4.4. The dead letter has none of the
//! record's headers, a timestamp of its own, and the record's key and value only with
//! `errors.deadletterqueue.copy.record.enable=true`.

use super::field::Decimal;
use super::{Contents, DeadLetter, Dialect, Fields, Origin, push};

pub(super) const PREFIX: &str = "__dlq.errors.";

const TOPIC: &str = "__dlq.errors.topic";
const PARTITION: &str = "__dlq.errors.partition";
const OFFSET: &str = "__dlq.errors.offset";
const GROUP: &str = "__dlq.errors.group";
const DELIVERY_COUNT: &str = "__dlq.errors.delivery.count";
const MESSAGE: &str = "__dlq.errors.message";

pub(super) fn read<'h>(
    fields: &Fields<impl Iterator<Item = (&'h str, Option<&'h [u8]>)> + Clone>,
) -> DeadLetter {
    let origin = fields.field(TOPIC).map(|topic| Origin {
        topic,
        partition: fields.field::<Decimal<i32>>(PARTITION).map(|number| number.0),
        offset: fields.field::<Decimal<i64>>(OFFSET).map(|number| number.0),
        timestamp_ms: None,
    });
    DeadLetter {
        origin,
        consumer: fields.field(GROUP),
        message: fields.field(MESSAGE),
        attempts: fields.field::<Decimal<u32>>(DELIVERY_COUNT).map(|number| number.0),
        ..DeadLetter::new(Dialect::ShareGroup, Contents::Reference)
    }
}

pub(super) fn headers(letter: &DeadLetter) -> Vec<(&'static str, Vec<u8>)> {
    let mut headers = Vec::new();
    if let Some(Origin { topic, partition, offset, .. }) = &letter.origin {
        push(&mut headers, TOPIC, Some(topic.clone()));
        push(&mut headers, PARTITION, partition.map(Decimal));
        push(&mut headers, OFFSET, offset.map(Decimal));
    }
    push(&mut headers, GROUP, letter.consumer.clone());
    push(&mut headers, DELIVERY_COUNT, letter.attempts.map(Decimal));
    push(&mut headers, MESSAGE, letter.message.clone());
    headers
}
