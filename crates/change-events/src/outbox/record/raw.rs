//! Raw contents of rows and messages that make no event.

use serde_json::{Map, Value as Json};

use super::Headers;
use super::encoder::Encoder;
use crate::outbox::message::MessageOutbox;
use crate::outbox::table::{BoundColumn, OutboxTable};
use connect_data::Value;
use connect_data::column::ColumnCodec;
use connect_data::converter::{Destination, Encoded};
use connect_data::record::{Header, ID_HEADER};
use pg_replication::pgoutput::{ColumnValue, Tuple};

/// The raw content of a row or a logical message that makes no event. It owns its parts, because it is rare
/// and may be stored for a while.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawRecord {
    /// The topic, if the row has one.
    pub topic: Option<String>,
    /// The key as its converter writes it; if that fails, the column's own text.
    pub key: Option<Vec<u8>>,
    /// A row's columns as a JSON object; a message's content unchanged.
    pub value: Vec<u8>,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl RawRecord {
    /// Builds a record without headers.
    #[must_use]
    pub fn new(topic: String, key: Option<Vec<u8>>, value: Vec<u8>) -> Self {
        Self { topic: Some(topic), key, value, headers: Vec::new() }
    }

    /// Returns the event's headers: all of them, or the id alone if one cannot be converted.
    #[must_use]
    pub fn headers(&self) -> Vec<Header<'_>> {
        self.headers.iter().map(|(name, value)| Header { name, value: value.as_deref() }).collect()
    }
}

impl OutboxTable {
    /// Returns the raw content of a row that [`Self::route`] refuses. Columns that the event would not have
    /// shown are excluded, and masked columns are masked here too.
    #[must_use]
    pub fn raw_record(&self, tuple: &Tuple<'_>, encoder: &mut Encoder) -> RawRecord {
        let row = tuple.columns();
        encoder.start_row();
        let route = self.route_value(row).ok();
        let topic = route.and_then(|route| encoder.topics.learn(&self.router.options.topic, &route).ok());
        let topic = topic.map(|topic| encoder.topics.name(topic).to_owned());
        let Encoder { scratch, schemas, .. } = encoder;
        let mut into = Destination { scratch, topic: topic.as_deref().unwrap_or_default(), schemas };
        let key = self.key(row, &mut into).ok();
        let headers = self.headers(row, None, &mut into).ok();
        let scratch = &*encoder.scratch;
        let text = |column: &BoundColumn| shown(column, row).and_then(|value| bytes_of(&value));
        RawRecord {
            topic,
            key: key.map_or_else(|| text(&self.key), |key| key.resolve(scratch).map(<[u8]>::to_vec)),
            headers: headers.map_or_else(
                || vec![(ID_HEADER.to_owned(), text(&self.id))],
                |headers| owned(headers, scratch),
            ),
            value: Json::Object(self.object(row)).to_string().into_bytes(),
        }
    }

    /// Returns the event's id as text, for messages about the row. It is masked if its column is.
    #[must_use]
    pub fn event_id(&self, row: &[ColumnValue<'_>]) -> Option<String> {
        match shown(&self.id, row)? {
            Json::String(id) => Some(id),
            _ => None,
        }
    }

    fn object(&self, row: &[ColumnValue<'_>]) -> Map<String, Json> {
        let mut object = Map::new();
        let timestamp = self.timestamp.iter().map(|timestamp| &timestamp.column);
        for column in self.columns().chain(timestamp) {
            if let Some(value) = shown(column, row) {
                object.insert(column.name.clone(), value);
            }
        }
        object
    }
}

impl MessageOutbox {
    /// Returns the raw content of a message that [`Self::route`] refuses.
    #[must_use]
    pub fn raw_record(&self, content: &[u8], encoder: &mut Encoder) -> RawRecord {
        encoder.start_row();
        let (topic, key) = self.topic_and_key(content, encoder);
        RawRecord { topic, key, value: content.to_vec(), headers: Vec::new() }
    }
}

/// Returns a column's value as the server wrote it, or `None` if the row lacks it.
fn shown(column: &BoundColumn, row: &[ColumnValue<'_>]) -> Option<Json> {
    shown_as_json(&column.codec, *row.get(column.index)?)
}

/// Returns a value as the server wrote it, or `None` if the server did not send it.
pub fn shown_as_json(codec: &ColumnCodec, value: ColumnValue<'_>) -> Option<Json> {
    if codec.changes_values() {
        // The value is truncated or masked; the original must not be shown here either.
        return Some(match codec.decode_without_default(value) {
            Ok(Value::Str(text)) => Json::String(text.into_owned()),
            _ => Json::Null,
        });
    }
    match value {
        ColumnValue::Null => Some(Json::Null),
        ColumnValue::Text(text) => Some(match std::str::from_utf8(text) {
            Ok(text) => Json::String(text.to_owned()),
            Err(_) => serde_json::json!({ "hex": hex(text) }),
        }),
        ColumnValue::UnchangedToast | ColumnValue::Binary(_) => None,
    }
}

fn bytes_of(value: &Json) -> Option<Vec<u8>> {
    match value {
        Json::String(text) => Some(text.clone().into_bytes()),
        Json::Null => None,
        other => Some(other.to_string().into_bytes()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn owned(headers: Headers<'_>, scratch: &[u8]) -> Vec<(String, Option<Vec<u8>>)> {
    let header =
        |(name, value): (&str, Encoded<'_>)| (name.to_owned(), value.resolve(scratch).map(<[u8]>::to_vec));
    headers.into_iter().map(header).collect()
}
