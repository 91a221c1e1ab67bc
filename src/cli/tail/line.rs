use indicatif::HumanBytes;
use serde_json::json;

use super::filter::event_type;
use crate::cli::text::{object as bytes, shown};
use crate::cli::time;
use crate::kafka::ScannedRecord;

/// A record in one line; the value, if it is wanted, in another.
pub(super) fn text(record: &ScannedRecord<'_>, with_value: bool) -> String {
    let at = record.timestamp_ms().map_or_else(|| "-".to_owned(), time::show);
    let place = format!("{}[{}]@{}", record.topic(), record.partition(), record.offset());
    let size =
        record.value().map_or_else(|| "null".to_owned(), |value| HumanBytes(length(value)).to_string());
    let kind = event_type(record).map(|kind| format!("  type {}", shown(Some(kind)))).unwrap_or_default();
    let id = record.event_id().map(|id| format!("  id {}", shown(Some(id)))).unwrap_or_default();
    let mut text = format!("{at}  {place}  key {}  {size}{kind}{id}\n", shown(record.key()));
    if with_value {
        text.push_str(&format!("    {}\n", shown(record.value())));
    }
    text
}

/// The same as JSON, with every header.
pub(super) fn object(record: &ScannedRecord<'_>, with_value: bool) -> String {
    let headers: Vec<_> = record.headers().map(|header| json!([header.name, bytes(header.value)])).collect();
    let mut object = json!({
        "topic": record.topic(), "partition": record.partition(), "offset": record.offset(),
        "timestamp": record.timestamp_ms(), "key": bytes(record.key()), "headers": headers,
        "value_bytes": record.value().map(length),
    });
    if let Some(fields) = object.as_object_mut().filter(|_| with_value) {
        fields.insert("value".to_owned(), bytes(record.value()));
    }
    format!("{object}\n")
}

fn length(value: &[u8]) -> u64 {
    u64::try_from(value.len()).unwrap_or(u64::MAX)
}
