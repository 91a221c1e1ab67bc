//! Events of an outbox before they are converted, for an EventRouter that stands among other transforms.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::envelope::Envelope;
use super::error::{BindError, RouteError};
use super::expand::{KnownSchemas, Shaped, Shaping};
use super::options::InvalidOperation;
use super::router::EventRouter;
use super::table::{BoundColumn, OutboxTable, Row, is_empty};
use crate::connect::Value;
use crate::connect::column::ColumnDescription;
use crate::connect::converter::Converter;
use crate::connect::source_record::{Datum, DatumHeader, SourceRecord};
use crate::connect::transform::activate_tracing::ActivateTracingSpan;
use crate::pgoutput::Relation;
use crate::trace::is_of_trace;

/// An outbox table whose events are not converted.
#[derive(Debug)]
pub(crate) struct OutboxSource {
    table: OutboxTable,
    tracing: Option<ActivateTracingSpan>,
    structures: Mutex<KnownSchemas>,
}

impl OutboxSource {
    /// Finds the columns of a table.
    ///
    /// # Errors
    /// When the EventRouter cannot use it.
    pub(crate) fn bind(
        router: &EventRouter,
        relation: &Relation,
        columns: &[ColumnDescription],
    ) -> Result<Self, BindError> {
        let (table, options) = (router.bind(relation, columns)?, router.options());
        let tracer = options.tracer.clone();
        let tracing = tracer.map(|tracer| ActivateTracingSpan::new(options.spans.clone(), tracer));
        Ok(Self { table, tracing, structures: Mutex::default() })
    }

    /// What an UPDATE of a row does.
    pub(crate) fn on_update(&self) -> InvalidOperation {
        self.table.router.options.invalid_operation
    }

    /// What the EventRouter makes of the record of an inserted row, at `now_ms`.
    ///
    /// # Errors
    /// When the row has no topic, or one of its values cannot be read.
    pub(crate) fn route<'a>(
        &'a self,
        row: Row<'_, 'a>,
        record: SourceRecord<'a>,
        now_ms: i64,
    ) -> Result<SourceRecord<'a>, RouteError> {
        let table = &self.table;
        let route = table.route_value(row)?;
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
            partition: table.partition(row)?,
            timestamp_ms: Some(table.timestamp_ms(row)?.unwrap_or(now_ms)),
            key: self.datum(&table.key, row)?,
            value: self.value(row, &route)?,
            headers,
        })
    }

    fn datum<'a>(&'a self, column: &'a BoundColumn, row: Row<'_, 'a>) -> Result<Datum<'a>, RouteError> {
        Ok(Datum::new(Arc::clone(column.codec.schema()), self.table.decode(column, row)?))
    }

    fn value<'a>(&'a self, row: Row<'_, 'a>, route: &str) -> Result<Datum<'a>, RouteError> {
        let table = &self.table;
        let payload = table.decode(&table.payload, row)?;
        if table.router.options.tombstone_on_empty_payload && is_empty(&payload) {
            return Ok(Datum::NULL);
        }
        let shaping = Shaping {
            expansion: table.router.options.expand_json,
            name: &table.payload.name,
            schema: table.payload.codec.schema(),
            enveloped: table.envelope.is_some(),
            ignore_schemas: table.router.converters.value == Converter::String,
        };
        let mut structures = self.structures.lock().unwrap_or_else(PoisonError::into_inner);
        let Shaped { schema, value } = shaping.shape(payload, &mut structures);
        let (Some(envelope), Some(payload_schema)) = (&table.envelope, &schema) else {
            return Ok(Datum { schema, value });
        };
        let further: Result<Vec<Value<'a>>, RouteError> =
            envelope.columns.iter().map(|named| table.decode(&named.column, row)).collect();
        let value = Envelope::value(value, further?.into_iter());
        let name = format!("{}.{route}.Value", table.schema_prefix);
        let schema = envelope.schema(name, table.schema_version(row)?, payload_schema);
        Ok(Datum::new(Arc::new(schema), value))
    }
}
