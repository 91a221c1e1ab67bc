//! Events of an outbox before their conversion, for an EventRouter among other transforms.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::arrived::Arrived;
use super::envelope::Envelope;
use super::timestamp::{EventTimestamp, TimestampKind};
use super::{BoundColumn, OutboxTable, Row, is_empty};
use crate::outbox::error::{BindError, RouteError};
use crate::outbox::expand::{KnownSchemas, Shaped, Shaping};
use crate::outbox::options::InvalidOperation;
use crate::outbox::router::EventRouter;
use connect_data::column::ColumnDescription;
use connect_data::converter::Converter;
use connect_data::source_record::{Datum, DatumHeader, SourceRecord};
use connect_data::trace::is_of_trace;
use connect_data::transform::debezium::activate_tracing::ActivateTracingSpan;
use connect_data::{Schema, Value};
use pg_replication::pgoutput::Relation;

/// An outbox table whose events are not converted.
#[derive(Debug)]
pub struct OutboxSource {
    table: OutboxTable,
    tracing: Option<ActivateTracingSpan>,
    structures: Mutex<KnownSchemas>,
}

impl OutboxSource {
    /// Finds the columns of a table.
    ///
    /// # Errors
    /// When the EventRouter cannot use it.
    pub fn bind(
        router: &EventRouter,
        relation: &Relation,
        columns: &[ColumnDescription],
    ) -> Result<Self, BindError> {
        let (table, options) = (router.bind(relation, columns)?, router.options());
        let tracer = options.tracer.clone();
        let tracing = tracer.map(|tracer| ActivateTracingSpan::new(options.spans.clone(), tracer));
        Ok(Self { table, tracing, structures: Mutex::default() })
    }

    /// Returns the reaction to an UPDATE of a row.
    pub fn on_update(&self) -> InvalidOperation {
        self.table.router.options.invalid_operation
    }

    /// Routes the record of an inserted row, at `now_ms` (milliseconds since the Unix epoch). `is_changed`
    /// means that transforms have changed the row in the record.
    ///
    /// # Errors
    /// When the row has no topic, or one of its values cannot be decoded.
    pub fn route<'a>(
        &'a self,
        row: Row<'_, 'a>,
        is_changed: bool,
        record: SourceRecord<'a>,
        now_ms: i64,
    ) -> Result<SourceRecord<'a>, RouteError> {
        let event = is_changed.then(|| record.value.clone());
        let row = Arrived::new(row, event.as_ref());
        let table = &self.table;
        let route = self.route_value(row)?;
        let topic = table.router.options.topic.topic(&route).map_err(|error| RouteError::Topic {
            table: table.table.clone(),
            column: table.route.name.clone(),
            source: error.into(),
        })?;
        let (mut headers, is_traced) = match &self.tracing {
            Some(tracing) => {
                let headers = tracing.trace(record).headers;
                let is_traced = headers.iter().any(|header| is_of_trace(&header.name));
                (headers, is_traced)
            }
            None => (record.headers, false),
        };
        let additional = table.headers.iter().map(|header| (header.name.as_str(), &header.column));
        let additional = additional.filter(|(name, _)| !is_traced || !is_of_trace(name));
        for (name, column) in std::iter::once(("id", &table.id)).chain(additional) {
            headers.push(DatumHeader { name: Cow::Borrowed(name), datum: self.datum(column, row)? });
        }
        Ok(SourceRecord {
            topic: Cow::Owned(topic.into_owned()),
            partition: table.partition(row.row)?,
            timestamp_ms: Some(self.timestamp_ms(row)?.unwrap_or(now_ms)),
            key: self.datum(&table.key, row)?,
            value: self.value(row, &route)?,
            headers,
        })
    }

    fn datum<'a>(&'a self, column: &'a BoundColumn, row: Arrived<'_, 'a>) -> Result<Datum<'a>, RouteError> {
        let Some((schema, value)) = row.changed(column) else {
            return Ok(Datum::new(Arc::clone(column.codec.schema()), self.table.decode(column, row.row)?));
        };
        let value = match (value, &schema.default) {
            (Value::Null, Some(default)) => default.clone(),
            (value, _) => value.clone(),
        };
        Ok(Datum::new(Arc::clone(schema), value))
    }

    fn route_value<'a>(&'a self, row: Arrived<'_, 'a>) -> Result<Cow<'a, str>, RouteError> {
        match row.changed(&self.table.route) {
            Some((_, Value::Str(text))) => Ok(text.clone()),
            _ => self.table.route_value(row.row),
        }
    }

    /// Returns the row's timestamp. Only for a `timestamp` column a transform's change counts.
    fn timestamp_ms(&self, row: Arrived<'_, '_>) -> Result<Option<i64>, RouteError> {
        let table = &self.table;
        let Some(sent) = table.timestamp_ms(row.row)? else { return Ok(None) };
        let Some(EventTimestamp { column, kind: TimestampKind::Timestamp }) = &table.timestamp else {
            return Ok(Some(sent));
        };
        match row.changed(column).and_then(|(schema, value)| millis(schema, value)) {
            Some(..0) => {
                let (table, column) = (table.table.clone(), column.name.clone());
                Err(RouteError::Timestamp { table, column, earliest: TimestampKind::Timestamp.earliest() })
            }
            changed => Ok(changed.or(Some(sent))),
        }
    }

    fn value<'a>(&'a self, row: Arrived<'_, 'a>, route: &str) -> Result<Datum<'a>, RouteError> {
        let table = &self.table;
        let Datum { schema, value: payload } = self.datum(&table.payload, row)?;
        if table.router.options.tombstone_on_empty_payload && is_empty(&payload) {
            return Ok(Datum::NULL);
        }
        let shaping = Shaping {
            expansion: table.router.options.expand_json,
            name: &table.payload.name,
            schema: schema.as_ref().unwrap_or_else(|| table.payload.codec.schema()),
            enveloped: table.envelope.is_some(),
            ignore_schemas: table.router.converters.value == Converter::String,
        };
        let mut structures = self.structures.lock().unwrap_or_else(PoisonError::into_inner);
        let Shaped { schema, value } = shaping.shape(payload, &mut structures);
        let (Some(envelope), Some(payload_schema)) = (&table.envelope, &schema) else {
            return Ok(Datum { schema, value });
        };
        let further: Result<Vec<Datum<'a>>, RouteError> =
            envelope.columns.iter().map(|named| self.datum(&named.column, row)).collect();
        let further = further?;
        let name = format!("{}.{route}.Value", table.schema_prefix);
        let mut schema = envelope.schema(name, table.schema_version(row.row)?, payload_schema);
        Envelope::take_schemas(&mut schema, further.iter().filter_map(|datum| datum.schema.as_ref()));
        let value = Envelope::value(value, further.into_iter().map(|datum| datum.value));
        Ok(Datum::new(Arc::new(schema), value))
    }
}

/// Converts a timestamp to milliseconds since the Unix epoch, truncated toward zero as by Java's division.
fn millis(schema: &Schema, value: &Value<'_>) -> Option<i64> {
    match (schema.name()?, value) {
        ("org.apache.kafka.connect.data.Timestamp", Value::Date(time))
        | ("io.debezium.time.Timestamp", Value::Int64(time)) => Some(*time),
        ("io.debezium.time.MicroTimestamp", Value::Int64(time)) => Some(time / 1_000),
        ("io.debezium.time.NanoTimestamp", Value::Int64(time)) => Some(time / 1_000_000),
        _ => None,
    }
}
