//! An outbox table, from rows to events.

pub(in crate::outbox) mod arrived;
pub(in crate::outbox) mod binding;
pub(in crate::outbox) mod envelope;
pub(in crate::outbox) mod placement;
pub(in crate::outbox) mod source;
pub(in crate::outbox) mod spans;
pub(in crate::outbox) mod timestamp;
pub(in crate::outbox) mod unmasked;

use std::borrow::Cow;
use std::sync::Arc;

use super::error::RouteError;
use super::expand::{KnownSchemas, Shaped, Shaping};
use super::options::InvalidOperation;
use super::record::encoder::Encoder;
use super::record::{Converted, Headers, RoutedRecord};
use super::router::{Assumption, Router};
use connect_data::column::{ColumnCodec, ColumnError, FailureHandling};
use connect_data::converter::{ConvertError, Converter, Destination, Encoded};
use connect_data::trace::{Begun, is_of_trace};
use connect_data::{Schema, Value};
use envelope::Envelope;
use pg_replication::pgoutput::{ColumnValue, Tuple};
use spans::RowTracing;
use timestamp::EventTimestamp;
use unmasked::Unmasked;

/// An outbox table with its columns: its input is rows, its output is events.
#[derive(Debug)]
pub struct OutboxTable {
    pub(in crate::outbox) router: Arc<Router>,
    /// The table, with its schema.
    pub(in crate::outbox) table: String,
    /// The prefix of the names of value schemas.
    pub(in crate::outbox) schema_prefix: String,
    pub(in crate::outbox) id: BoundColumn,
    pub(in crate::outbox) key: BoundColumn,
    pub(in crate::outbox) payload: BoundColumn,
    pub(in crate::outbox) route: BoundColumn,
    pub(in crate::outbox) timestamp: Option<EventTimestamp>,
    pub(in crate::outbox) version: Option<BoundColumn>,
    /// Additional headers.
    pub(in crate::outbox) headers: Vec<NamedColumn>,
    pub(in crate::outbox) envelope: Option<Envelope>,
    pub(in crate::outbox) partition: Option<BoundColumn>,
    /// The tracer, if rows of the table may have spans.
    pub(in crate::outbox) tracing: Option<RowTracing>,
    pub(in crate::outbox) assumptions: Vec<Assumption>,
    pub(in crate::outbox) unmasked: Vec<Unmasked>,
}

/// A column at its position in the row.
#[derive(Debug)]
pub(in crate::outbox) struct BoundColumn {
    pub(in crate::outbox) index: usize,
    pub(in crate::outbox) name: String,
    pub(in crate::outbox) codec: ColumnCodec,
}

/// A column with its name in the event.
#[derive(Debug)]
pub(in crate::outbox) struct NamedColumn {
    pub(in crate::outbox) name: String,
    pub(in crate::outbox) column: BoundColumn,
}

/// The parts of a record that the row itself does not contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteContext {
    /// The present time, in milliseconds since the Unix epoch: the timestamp of records whose row has none.
    pub now_ms: i64,
}

/// The values of a row, in the relation's order.
pub(in crate::outbox) type Row<'r, 'a> = &'r [ColumnValue<'a>];
impl OutboxTable {
    /// Returns the table's name with its schema: `public.outbox`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.table
    }

    /// Returns the columns that replace missing default ones, to be logged when the table is first seen.
    #[must_use]
    pub fn assumptions(&self) -> &[Assumption] {
        &self.assumptions
    }

    /// Returns the columns that should be masked and are not, to be logged when the table is first seen.
    #[must_use]
    pub fn unmasked(&self) -> &[Unmasked] {
        &self.unmasked
    }

    /// Returns the column of the record's timestamp.
    #[must_use]
    pub fn timestamp_column(&self) -> Option<&str> {
        self.timestamp.as_ref().map(|timestamp| timestamp.column.name.as_str())
    }

    /// Returns the reaction to an UPDATE of a row.
    #[must_use]
    pub fn on_update(&self) -> InvalidOperation {
        self.router.options.invalid_operation
    }

    /// Routes an inserted row.
    ///
    /// # Errors
    /// When the row has no topic, or one of its values cannot be decoded or converted.
    pub fn route<'a, 'buffer: 'a>(
        &'a self,
        tuple: &Tuple<'buffer>,
        at: RouteContext,
        encoder: &'a mut Encoder,
    ) -> Result<RoutedRecord<'a>, RouteError> {
        self.route_traced(tuple, at, None, encoder)
    }

    /// Routes an inserted row, with the headers of its span.
    ///
    /// # Errors
    /// As [`Self::route`].
    pub fn route_traced<'a, 'buffer: 'a>(
        &'a self,
        tuple: &Tuple<'buffer>,
        at: RouteContext,
        begun: Option<&'a Begun>,
        encoder: &'a mut Encoder,
    ) -> Result<RoutedRecord<'a>, RouteError> {
        let row: Row<'_, 'a> = tuple.columns();
        encoder.start_row();
        let route = self.route_value(row)?;
        let topic = encoder.topics.learn(&self.router.options.topic, &route);
        let topic = topic.map_err(|error| RouteError::Topic {
            table: self.table.clone(),
            column: self.route.name.clone(),
            source: error.into(),
        })?;
        let Encoder { scratch, topics, schemas, structures } = encoder;
        let mut into = Destination { scratch, topic: topics.name(topic), schemas };
        let headers = self.headers(row, begun, &mut into)?;
        let key = self.key(row, &mut into)?;
        let value = self.value(row, &route, structures, &mut into)?;
        let partition = self.partition(row)?;
        let timestamp_ms = self.timestamp_ms(row)?.unwrap_or(at.now_ms);
        Ok(Converted { topic, partition, timestamp_ms, key, value, headers }.resolve(encoder))
    }

    /// Returns the tracer of its rows, if there is one.
    #[must_use]
    pub const fn tracing(&self) -> Option<&RowTracing> {
        self.tracing.as_ref()
    }

    /// Returns the columns whose value has no form and for which a warning is configured
    /// (`event.converting.failure.handling.mode=warn`). The event contains their default or null instead.
    pub fn replaced_columns(&self, tuple: &Tuple<'_>) -> impl Iterator<Item = &str> {
        let warns = self.router.context.columns.failure == FailureHandling::Warn;
        let columns = warns.then(|| self.columns()).into_iter().flatten();
        columns.filter_map(|column| {
            let value = tuple.columns().get(column.index)?;
            column.codec.is_replaced(*value).then_some(column.name.as_str())
        })
    }

    /// Returns all columns of an event, except that of its timestamp.
    pub(in crate::outbox) fn columns(&self) -> impl Iterator<Item = &BoundColumn> {
        let further = self.envelope.iter().flat_map(|envelope| &envelope.columns);
        let named = self.headers.iter().chain(further).map(|named| &named.column);
        let optional = [&self.version, &self.partition].into_iter().flatten();
        [&self.id, &self.key, &self.payload, &self.route].into_iter().chain(optional).chain(named)
    }

    pub(in crate::outbox) fn route_value<'a>(&'a self, row: Row<'_, 'a>) -> Result<Cow<'a, str>, RouteError> {
        let value = self.route.codec.decode_without_default(self.raw(&self.route, row)?);
        match value.map_err(|error| self.unreadable(&self.route, error))? {
            Value::Str(text) => Ok(text),
            _ => Err(RouteError::NullRoute { table: self.table.clone(), column: self.route.name.clone() }),
        }
    }

    /// Converts the headers: the context, the span, the id, the additional headers. Consumers read the last
    /// `traceparent`, so the header of a column is dropped if the row has a span.
    pub(in crate::outbox) fn headers<'a>(
        &'a self,
        row: Row<'_, 'a>,
        begun: Option<&'a Begun>,
        into: &mut Destination<'_>,
    ) -> Result<Headers<'a>, RouteError> {
        let context = self.router.headers.iter();
        let mut headers: Headers<'a> = context
            .map(|header| (header.name, header.value.as_deref().map_or(Encoded::Null, Encoded::Borrowed)))
            .collect();
        for (name, text) in begun.into_iter().flat_map(Begun::headers) {
            headers.push((name, self.span_header(text, into)?));
        }
        let additional = self.headers.iter().map(|header| (header.name.as_str(), &header.column));
        let additional = additional.filter(|(name, _)| begun.is_none() || !is_of_trace(name));
        for (name, column) in std::iter::once(("id", &self.id)).chain(additional) {
            let value = self.decode(column, row)?;
            let converted = self.router.converters.header.convert(Some(column.codec.schema()), &value, into);
            headers.push((
                name,
                converted.map_err(|error| self.inconvertible(column, "header.converter", error))?,
            ));
        }
        Ok(headers)
    }

    pub(in crate::outbox) fn key<'a>(
        &'a self,
        row: Row<'_, 'a>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, RouteError> {
        let value = self.decode(&self.key, row)?;
        let converted = self.router.converters.key.convert(Some(self.key.codec.schema()), &value, into);
        converted.map_err(|error| self.inconvertible(&self.key, "key.converter", error))
    }

    fn value<'a>(
        &'a self,
        row: Row<'_, 'a>,
        route: &str,
        structures: &mut KnownSchemas,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, RouteError> {
        let payload = self.decode(&self.payload, row)?;
        if self.router.options.tombstone_on_empty_payload && is_empty(&payload) {
            return Ok(Encoded::Null);
        }
        let shaping = Shaping {
            expansion: self.router.options.expand_json,
            name: &self.payload.name,
            schema: self.payload.codec.schema(),
            enveloped: self.envelope.is_some(),
            ignore_schemas: self.router.converters.value == Converter::String,
        };
        let Shaped { schema, value: payload } = shaping.shape(payload, structures);
        match (&self.envelope, &schema) {
            (Some(envelope), Some(schema)) => self.enveloped(envelope, schema, payload, row, route, into),
            _ => self.convert_value(schema.as_deref(), &payload, into),
        }
    }

    fn enveloped<'a>(
        &'a self,
        envelope: &'a Envelope,
        payload_schema: &Arc<Schema>,
        payload: Value<'a>,
        row: Row<'_, 'a>,
        route: &str,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, RouteError> {
        let mut further = Vec::with_capacity(envelope.columns.len());
        for NamedColumn { column, .. } in &envelope.columns {
            further.push(self.decode(column, row)?);
        }
        let value = Envelope::value(payload, further.into_iter());
        let own_payload = Arc::ptr_eq(payload_schema, self.payload.codec.schema());
        if own_payload && !self.router.converters.value.writes_schemas() {
            return self.convert_value(Some(envelope.plain_schema()), &value, into);
        }
        let name = format!("{}.{route}.Value", self.schema_prefix);
        let schema = envelope.schema(name, self.schema_version(row)?, payload_schema);
        self.convert_value(Some(&schema), &value, into)
    }

    fn convert_value<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'a>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, RouteError> {
        let converted = self.router.converters.value.convert(schema, value, into);
        converted.map_err(|error| self.inconvertible(&self.payload, "value.converter", error))
    }

    pub(in crate::outbox) fn schema_version(&self, row: Row<'_, '_>) -> Result<Option<i32>, RouteError> {
        let version = self.version.as_ref().map_or(Ok(None), |column| self.integer(column, row))?;
        Ok(version.and_then(|version| i32::try_from(version).ok()))
    }

    pub(in crate::outbox) fn partition(&self, row: Row<'_, '_>) -> Result<Option<i32>, RouteError> {
        let Some(column) = &self.partition else { return Ok(None) };
        let Some(number) = self.integer(column, row)? else { return Ok(None) };
        match i32::try_from(number) {
            Ok(partition @ 0..) => Ok(Some(partition)),
            _ => Err(RouteError::Partition { table: self.table.clone(), column: column.name.clone() }),
        }
    }

    /// Reads an integer column; NULL stays NULL even if the column has a default.
    fn integer(&self, column: &BoundColumn, row: Row<'_, '_>) -> Result<Option<i64>, RouteError> {
        let value = column.codec.decode_without_default(self.raw(column, row)?);
        Ok(match value.map_err(|error| self.unreadable(column, error))? {
            Value::Int16(number) => Some(i64::from(number)),
            Value::Int32(number) => Some(i64::from(number)),
            Value::Int64(number) => Some(number),
            _ => None,
        })
    }

    pub(in crate::outbox) fn timestamp_ms(&self, row: Row<'_, '_>) -> Result<Option<i64>, RouteError> {
        let Some(EventTimestamp { column, kind }) = &self.timestamp else { return Ok(None) };
        let text = match self.raw(column, row)? {
            ColumnValue::Null => return Ok(None),
            ColumnValue::Text(text) => std::str::from_utf8(text).ok(),
            ColumnValue::UnchangedToast | ColumnValue::Binary(_) => None,
        };
        if text.is_some_and(|text| kind.is_infinite(text)) {
            return Err(RouteError::Infinite { table: self.table.clone(), column: column.name.clone() });
        }
        let millis = text.and_then(|text| kind.millis(text)).ok_or_else(|| {
            self.unreadable(column, ColumnError::Malformed(column.codec.type_name().to_owned()))
        })?;
        if millis < 0 {
            let (table, column) = (self.table.clone(), column.name.clone());
            return Err(RouteError::Timestamp { table, column, earliest: kind.earliest() });
        }
        Ok(Some(millis))
    }

    pub(in crate::outbox) fn decode<'a>(
        &self,
        column: &'a BoundColumn,
        row: Row<'_, 'a>,
    ) -> Result<Value<'a>, RouteError> {
        column.codec.decode(self.raw(column, row)?).map_err(|error| self.unreadable(column, error))
    }

    fn raw<'a>(&self, column: &BoundColumn, row: Row<'_, 'a>) -> Result<ColumnValue<'a>, RouteError> {
        let short_row = || RouteError::ShortRow { table: self.table.clone(), column: column.name.clone() };
        row.get(column.index).copied().ok_or_else(short_row)
    }

    fn unreadable(&self, column: &BoundColumn, source: ColumnError) -> RouteError {
        RouteError::Column { table: self.table.clone(), column: column.name.clone(), source }
    }

    fn inconvertible(&self, column: &BoundColumn, option: &'static str, source: ConvertError) -> RouteError {
        RouteError::Convert { table: self.table.clone(), column: column.name.clone(), option, source }
    }
}

/// Reports whether a payload is empty for `route.tombstone.on.empty.payload`: NULL, or text that contains
/// only blanks and control characters.
pub(in crate::outbox) fn is_empty(payload: &Value<'_>) -> bool {
    match payload {
        Value::Null => true,
        Value::Str(text) => text.chars().all(|character| character <= ' '),
        _ => false,
    }
}
