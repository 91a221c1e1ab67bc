//! Records as lines.

use indicatif::HumanBytes;
use serde_json::json;

use super::decoded::Decoded;
use super::filter::event_type;
use crate::cli::shell::text::{clean, object as bytes, shown};
use crate::cli::shell::time;
use crate::kafka::ScannedRecord;

/// Returns a record in one line; the value, if it is wanted, in another.
pub(super) fn text(record: &ScannedRecord<'_>, decoded: &Decoded<'_>) -> String {
    let at = record.timestamp_ms().map_or_else(|| "-".to_owned(), time::show);
    let place = format!("{}[{}]@{}", record.topic(), record.partition(), record.offset());
    let size =
        record.value().map_or_else(|| "null".to_owned(), |value| HumanBytes(length(value)).to_string());
    let kind = event_type(record).map(|kind| format!("  type {}", shown(Some(kind)))).unwrap_or_default();
    let id = record.event_id().map(|id| format!("  id {}", shown(Some(id)))).unwrap_or_default();
    let mut text = format!("{at}  {place}  key {}  {size}{kind}{id}\n", shown(decoded.key.as_deref()));
    if let Some(value) = &decoded.value {
        text.push_str(&format!("    {}\n", shown(value.as_deref())));
    }
    for (part, why) in &decoded.unreadable {
        text.push_str(&format!("    the {part} is not decoded: {}\n", clean(why)));
    }
    text
}

/// Returns a record as JSON, with every header.
pub(super) fn object(record: &ScannedRecord<'_>, decoded: &Decoded<'_>) -> String {
    let headers: Vec<_> = record.headers().map(|header| json!([header.name, bytes(header.value)])).collect();
    let mut object = json!({
        "topic": record.topic(), "partition": record.partition(), "offset": record.offset(),
        "timestamp": record.timestamp_ms(), "key": bytes(decoded.key.as_deref()), "headers": headers,
        "value_bytes": record.value().map(length),
    });
    let Some(fields) = object.as_object_mut() else { return String::new() };
    if let Some(value) = &decoded.value {
        fields.insert("value".to_owned(), bytes(value.as_deref()));
    }
    for (part, why) in &decoded.unreadable {
        fields.insert(format!("{part}_not_decoded"), why.as_str().into());
    }
    format!("{object}\n")
}

fn length(value: &[u8]) -> u64 {
    u64::try_from(value.len()).unwrap_or(u64::MAX)
}
