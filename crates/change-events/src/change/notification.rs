//! Notifications about snapshots as records (`SinkNotificationChannel`).

use std::borrow::Cow;
use std::sync::Arc;

use super::events::Connector;
use super::record::{ChangeRecords, Inconvertible};
use crate::outbox::RouteError;
use crate::signal::Notification;
use connect_data::converter::Destination;
use connect_data::source_record::{Datum, SourceRecord};
use connect_data::{Field, Kind, Schema, Value};

/// The schemas of notifications.
#[derive(Debug)]
pub(super) struct NotificationSchemas {
    key: Arc<Schema>,
    value: Arc<Schema>,
}

impl NotificationSchemas {
    pub(super) fn new() -> Self {
        Self { key: Arc::new(key_schema()), value: Arc::new(value_schema()) }
    }
}

impl Connector {
    /// Builds the record of a notification with this id, which happened at `now_ms` (milliseconds since the
    /// Unix epoch). Returns `None` if a transform drops it.
    pub(super) fn notification_record<'a>(
        &'a self,
        topic: &'a str,
        id: &'a str,
        notification: &'a Notification,
        now_ms: i64,
        into: &mut Destination<'_>,
    ) -> Result<Option<ChangeRecords<'a>>, RouteError> {
        let data = notification
            .additional_data(&self.context.topic_prefix)
            .into_iter()
            .map(|(name, text)| (Value::str(name), Value::str(text)));
        let value = vec![
            Value::str(id),
            Value::str(notification.status.name()),
            Value::str(notification.aggregate.name()),
            Value::Map(data.collect()),
            Value::Int64(now_ms),
        ];
        let schemas = &self.notifications;
        let record = SourceRecord {
            topic: Cow::Borrowed(topic),
            partition: None,
            timestamp_ms: None,
            key: Datum::new(Arc::clone(&schemas.key), Value::Struct(vec![Value::str(id)])),
            value: Datum::new(Arc::clone(&schemas.value), Value::Struct(value)),
            headers: Vec::new(),
        };
        let mut records = ChangeRecords::default();
        let transformed = self.chain.apply(record);
        let transformed =
            transformed.map_err(|source| RouteError::Transform { table: topic.to_owned(), source })?;
        let Some(record) = transformed else { return Ok(None) };
        let pushed = records.push(record, &self.converters, into, now_ms);
        pushed.map_err(|Inconvertible { option, source }| RouteError::Convert {
            table: topic.to_owned(),
            column: "*".to_owned(),
            option,
            source,
        })?;
        Ok(Some(records))
    }
}

fn key_schema() -> Schema {
    let fields = vec![required("id", Kind::String)];
    Schema::named(Kind::Struct(fields), "io.debezium.connector.common.NotificationKey")
}

fn value_schema() -> Schema {
    let text = || Arc::new(Schema::new(Kind::String));
    let data = Schema::new(Kind::Map(text(), text())).optional(true);
    let fields = vec![
        required("id", Kind::String),
        required("type", Kind::String),
        required("aggregate_type", Kind::String),
        Field::new("additional_data", Arc::new(data)),
        required("timestamp", Kind::Int64),
    ];
    Schema::named(Kind::Struct(fields), "io.debezium.connector.common.Notification")
}

fn required(name: &str, kind: Kind) -> Field {
    Field::new(name, Arc::new(Schema::new(kind)))
}
