//! Logical messages (`pg_logical_emit_message`) as events (`LogicalDecodingMessageMonitor`).

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::context::ChangeContext;
use super::digest::ChangeDigest;
use super::envelope::source;
use super::envelope::source::Source;
use super::envelope::transaction;
use super::events::{ChangeEvents, Connector};
use super::record::{ChangeRecords, Inconvertible};
use crate::outbox::{EventContext, MessagePrefixes, RawRecord, RouteError};
use connect_data::column::{binary, binary_schema};
use connect_data::converter::Destination;
use connect_data::source_record::{Datum, SourceRecord};
use connect_data::{Field, Kind, NameAdjustment, Schema, Value};
use pg_replication::pgoutput::LogicalMessage;

/// Prefix of outboxd's own messages, which are never events.
const OWN_PREFIX: &str = "outboxd.";

/// Name under which transaction metadata counts messages.
pub const MESSAGES: &str = "LOGICAL_DECODING_MESSAGE";

/// Schemas, topic and prefixes of the events of messages.
#[derive(Debug)]
pub(super) struct MessageEvents {
    prefixes: MessagePrefixes,
    topic: String,
    key: Arc<Schema>,
    value: Arc<Schema>,
    source: Source,
}

impl MessageEvents {
    pub(super) fn new(
        prefixes: MessagePrefixes,
        version: &str,
        context: &EventContext,
        database: &str,
    ) -> Self {
        let content = binary_schema(context.columns.binary).optional(true);
        Self {
            prefixes,
            topic: format!("{}.message", context.topic_prefix),
            key: Arc::new(key_schema(context.schema_names)),
            value: Arc::new(value_schema(context.schema_names, content)),
            source: Source {
                version: version.to_owned(),
                name: context.topic_prefix.clone(),
                database: database.to_owned(),
                schema: String::new(),
                table: String::new(),
            },
        }
    }
}

impl ChangeEvents {
    /// Reports whether messages with this prefix are events.
    #[must_use]
    pub fn takes_message(&self, prefix: &str) -> bool {
        !prefix.starts_with(OWN_PREFIX) && self.0.messages.prefixes.take(prefix)
    }

    /// Builds the record of a message. It is empty if a transform drops it.
    ///
    /// # Errors
    /// When a transform or a converter fails, or a converter first needs the id of its schema.
    pub fn message_record<'a>(
        &'a self,
        message: &LogicalMessage<'a>,
        at: &ChangeContext,
        into: &mut Destination<'_>,
    ) -> Result<ChangeRecords<'a>, RouteError> {
        self.0.message_record(message, at, into)
    }

    /// Computes the digest that identifies the record of a message.
    pub fn message_digest(message: &LogicalMessage<'_>, at: &ChangeContext) -> ChangeDigest {
        let transaction = at.xid.map(|xid| (xid, at.commit_time));
        ChangeDigest::of_message(message, transaction)
    }

    /// Returns the raw content of a message that makes no event, for example for the dead-letter topic.
    pub fn raw_message(&self, message: &LogicalMessage<'_>) -> RawRecord {
        let value = json!({"op": "m", "prefix": message.prefix, "content": STANDARD.encode(message.content)});
        let key = message.prefix.as_bytes().to_vec();
        RawRecord::new(self.0.messages.topic.clone(), Some(key), value.to_string().into_bytes())
    }
}

impl Connector {
    fn message_record<'a>(
        &'a self,
        message: &LogicalMessage<'a>,
        at: &ChangeContext,
        into: &mut Destination<'_>,
    ) -> Result<ChangeRecords<'a>, RouteError> {
        let MessageEvents { topic, key, value, source, .. } = &self.messages;
        let place = at
            .xid
            .zip(at.before)
            .map_or(Value::Null, |(xid, before)| transaction::block(xid, at.lsn, before));
        let now_ms = at.now_us.div_euclid(1_000);
        let content = binary(Cow::Borrowed(message.content), self.context.columns.binary);
        let fields = vec![
            Value::str("m"),
            Value::Int64(now_ms),
            source.value(at),
            place,
            Value::Struct(vec![Value::str(message.prefix), content]),
        ];
        let record = SourceRecord {
            topic: Cow::Borrowed(topic),
            partition: None,
            timestamp_ms: None,
            key: Datum::new(Arc::clone(key), Value::Struct(vec![Value::str(message.prefix)])),
            value: Datum::new(Arc::clone(value), Value::Struct(fields)),
            headers: Vec::new(),
        };
        let mut records = ChangeRecords::default();
        let transformed = self.chain.apply(record);
        let transformed =
            transformed.map_err(|source| RouteError::Transform { table: topic.clone(), source })?;
        let Some(record) = transformed else { return Ok(records) };
        records.push(record, &self.converters, into, now_ms).map_err(
            |Inconvertible { option, source }| RouteError::Convert {
                table: topic.clone(),
                column: "*".to_owned(),
                option,
                source,
            },
        )?;
        Ok(records)
    }
}

fn key_schema(names: NameAdjustment) -> Schema {
    let prefix = Field::new("prefix", Arc::new(Schema::new(Kind::String).optional(true)));
    named(names, vec![prefix], "MessageKey")
}

fn value_schema(names: NameAdjustment, content: Schema) -> Schema {
    let required = |name: &str, kind| Field::new(name, Arc::new(Schema::new(kind)));
    let prefix = Field::new("prefix", Arc::new(Schema::new(Kind::String).optional(true)));
    let message = named(names, vec![prefix, Field::new("content", Arc::new(content))], "Message");
    let fields = vec![
        required("op", Kind::String),
        Field::new("ts_ms", Arc::new(Schema::new(Kind::Int64).optional(true))),
        Field::new("source", Arc::new(source::schema())),
        Field::new("transaction", Arc::new(transaction::block_schema())),
        Field::new("message", Arc::new(message)),
    ];
    named(names, fields, "MessageValue")
}

fn named(names: NameAdjustment, fields: Vec<Field>, name: &str) -> Schema {
    let name = format!("io.debezium.connector.postgresql.{name}");
    let name = names.schema_name(&name).into_owned();
    Schema { name: Some(Cow::Owned(name)), version: Some(1), ..Schema::new(Kind::Struct(fields)) }
}
