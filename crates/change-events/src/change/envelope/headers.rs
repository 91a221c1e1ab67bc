//! The headers of `io.debezium.connector.common.DebeziumHeaderProducer`, which each record has.

use std::borrow::Cow;
use std::sync::Arc;

use crate::change::events::Connector;
use crate::outbox::EventContext;
use connect_data::converter::registered::SchemaIds;
use connect_data::converter::{Converter, Destination, Encoded};
use connect_data::source_record::{Datum, DatumHeader};
use connect_data::{Schema, Value};

/// The headers in bytes; `None` if their converter fails on one.
pub(in crate::change) type ContextBytes = Option<Vec<(&'static str, Vec<u8>)>>;

/// Converts the headers once, for all records.
pub(in crate::change) fn convert(
    context: &EventContext,
    converter: &Converter,
    text: &Arc<Schema>,
) -> ContextBytes {
    let convert = |(name, value): (&'static str, &str)| {
        let mut scratch = Vec::new();
        let mut into = Destination { scratch: &mut scratch, topic: "", schemas: &mut SchemaIds::default() };
        let encoded = converter.convert(Some(text), &Value::str(value), &mut into).ok()?;
        Some((name, encoded.resolve(&scratch)?.to_vec()))
    };
    texts(context).map(convert).collect()
}

impl Connector {
    /// Returns the headers before their conversion.
    pub(in crate::change) fn context_headers(&self) -> impl Iterator<Item = DatumHeader<'_>> {
        texts(&self.context).map(|(name, text)| DatumHeader {
            name: Cow::Borrowed(name),
            datum: Datum::new(Arc::clone(&self.text), Value::str(text)),
        })
    }

    /// Returns the converted headers.
    pub(in crate::change) fn converted_headers(&self) -> impl Iterator<Item = (Cow<'_, str>, Encoded<'_>)> {
        let converted = self.context_bytes.iter().flatten();
        converted.map(|(name, bytes)| (Cow::Borrowed(*name), Encoded::Borrowed(bytes.as_slice())))
    }
}

fn texts(context: &EventContext) -> impl Iterator<Item = (&'static str, &str)> {
    let texts = context.run_id.as_deref().map(|run_id| {
        [
            ("__debezium.context.connectorLogicalName", context.topic_prefix.as_str()),
            ("__debezium.context.taskId", "0"),
            ("__debezium.context.connectorName", "postgresql"),
            ("__debezium.context.runId", run_id),
        ]
    });
    texts.into_iter().flatten()
}
