use std::sync::LazyLock;

use super::{NOW, Options, lookup, router};
use change_events::outbox::{Encoder, MessageOutbox, MessagePrefixes, check_topic_name};

const OPTIONS: Options = &[
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("table.field.event.key", "aggregateId"),
    ("route.by.field", "aggregateType"),
    ("table.field.event.timestamp", "at"),
    ("table.fields.additional.placement", "p:partition,note:header,more:envelope"),
    ("table.fields.additional.error.on.missing", "false"),
];

static OUTBOX: LazyLock<MessageOutbox> =
    LazyLock::new(|| router(OPTIONS).messages(MessagePrefixes::default(), &lookup(OPTIONS)).unwrap());

pub fn logical_message(content: &[u8]) {
    let mut encoder = Encoder::default();
    if let Ok(record) = OUTBOX.route(content, NOW, &mut encoder) {
        assert_eq!(check_topic_name(record.topic), Ok(()));
    }
    drop(OUTBOX.raw_record(content, &mut encoder));
}
