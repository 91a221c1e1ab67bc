//! Dead letters as JSON.

use outboxd_inbox::dead_letter::{Contents, DeadLetter};
use serde_json::{Map, Value, json};

use super::letter::RecordView;
use super::state::Outcome;
use crate::cli::shell::text;
use crate::kafka::StoredRecord;

/// A dead letter with all of its parts.
#[derive(Debug)]
pub(super) struct Whole<'w> {
    pub(super) topic: &'w str,
    pub(super) partition: i32,
    pub(super) offset: i64,
    pub(super) record: &'w StoredRecord,
    pub(super) outcome: Option<Outcome>,
}

impl Whole<'_> {
    pub(super) fn read(&self) -> Option<DeadLetter> {
        view(self.record).read()
    }

    /// Returns one JSON object, with its key, and with its value if that is wanted.
    pub(super) fn object(&self, with_value: bool) -> Value {
        let Self { topic, partition, offset, record, outcome } = self;
        let mut object = json!({
            "topic": topic, "partition": partition, "offset": offset, "timestamp": record.timestamp_ms,
            "outcome": outcome.as_ref().map_or("open", Outcome::name),
            "letter": self.read().as_ref().map(said),
            "replays": view(record).replays(),
            "key": text::object(record.key.as_deref()),
        });
        if let Some(fields) = object.as_object_mut() {
            add_value(fields, record, with_value);
            let header =
                |(name, value): &(String, Option<Vec<u8>>)| json!([name, text::object(value.as_deref())]);
            fields.insert("headers".to_owned(), record.headers.iter().map(header).collect());
        }
        object
    }
}

fn add_value(fields: &mut Map<String, Value>, record: &StoredRecord, with_value: bool) {
    if with_value {
        fields.insert("value".to_owned(), text::object(record.value.as_deref()));
    } else {
        fields.insert("value_bytes".to_owned(), json!(record.value.as_ref().map(Vec::len)));
    }
}

pub(super) fn view(record: &StoredRecord) -> RecordView<'_> {
    RecordView {
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        value: record.value.as_deref(),
        headers: record.headers.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect(),
    }
}

/// Returns its parsed headers.
fn said(letter: &DeadLetter) -> Value {
    let origin = letter.origin.as_ref().map(|origin| {
        json!({
            "topic": origin.topic, "partition": origin.partition,
            "offset": origin.offset, "timestamp": origin.timestamp_ms,
        })
    });
    json!({
        "dialect": letter.dialect.name(), "contents": contents(letter.contents), "origin": origin,
        "consumer": letter.consumer, "reason": letter.reason, "exception": letter.exception,
        "message": letter.message, "details": letter.details, "attempts": letter.attempts,
        "failed_at": letter.failed_at_ms,
    })
}

pub(super) const fn contents(contents: Contents) -> &'static str {
    match contents {
        Contents::Record => "the record",
        Contents::Row => "columns of a row that made no record",
        Contents::ValueLeftOut => "the record without its value",
        Contents::Reference => "key and value at most; replay reads the record where it was",
    }
}
