use std::sync::LazyLock;

use super::{NOW, Options, table};
use change_events::outbox::{Encoder, OutboxTable, check_topic_name};
use pg_replication::pgoutput::{ColumnValue, Tuple};

const JSON: (&str, &str) = ("value.converter", "org.apache.kafka.connect.json.JsonConverter");
const STRING: (&str, &str) = ("value.converter", "org.apache.kafka.connect.storage.StringConverter");
const PLAIN: (&str, &str) = ("value.converter.schemas.enable", "false");
const EXPAND: (&str, &str) = ("table.expand.json.payload", "true");
const NULLS: (&str, &str) = ("table.json.payload.null.behavior", "optional_bytes");
const ARRAYS: (&str, &str) = ("table.json.payload.empty.array.behavior", "optional_string");
const ENVELOPE: (&str, &str) = ("table.fields.additional.placement", "note:envelope");
const HEADER: (&str, &str) = ("table.fields.additional.placement", "note:header,type:envelope");

const OPTIONS: [Options; 8] = [
    &[],
    &[STRING, HEADER],
    &[JSON, PLAIN],
    &[JSON, EXPAND],
    &[JSON, PLAIN, EXPAND, NULLS, ARRAYS],
    &[JSON, PLAIN, EXPAND, ("table.expand.json.lossless", "true")],
    &[JSON, ENVELOPE, EXPAND],
    &[STRING, EXPAND, ("field.name.adjustment.mode", "avro_unicode")],
];

static TABLES: LazyLock<Vec<OutboxTable>> =
    LazyLock::new(|| OPTIONS.iter().map(|options| table(options)).collect());

// The first byte chooses the options; the values of the row are divided by zeros, and a value of one byte 1 is NULL.
pub fn row(bytes: &[u8]) {
    let Some((&choice, rest)) = bytes.split_first() else { return };
    let choice = usize::from(choice) % OPTIONS.len();
    let value = |bytes| if bytes == [1] { ColumnValue::Null } else { ColumnValue::Text(bytes) };
    let row: Tuple<'_> = rest.split(|byte| *byte == 0).map(value).collect();
    let (table, mut encoder) = (&TABLES[choice], Encoder::default());
    let kept = table.raw_record(&row, &mut encoder);
    assert!(serde_json::from_slice::<serde_json::Value>(&kept.value).unwrap().is_object());
    let Ok(record) = table.route(&row, NOW, &mut encoder) else { return };
    assert_eq!(check_topic_name(record.topic), Ok(()));
    if let (Some(value), true) = (record.value, OPTIONS[choice].contains(&JSON)) {
        // Numbers beyond what a double holds are written as they are.
        let value = std::str::from_utf8(value).expect("JSON is UTF-8");
        let deep = value.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count() > 120;
        assert!(deep || serde_json::from_str::<serde_json::Value>(value).is_ok(), "{value}");
    }
    // The payload's structure is known now.
    let value = record.value.map(<[u8]>::to_vec);
    drop(record);
    let again = table.route(&row, NOW, &mut encoder).expect("it was routed");
    assert_eq!(again.value, value.as_deref());
}
