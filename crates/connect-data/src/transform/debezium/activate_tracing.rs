//! Debezium's `ActivateTracingSpan`: headers that continue the trace of a row.

use std::borrow::Cow;
use std::sync::Arc;

use super::unwrap::{is_change_event, operation};
use crate::source_record::{Datum, DatumHeader, SourceRecord};
use crate::trace::{RowMoment, SpanRules, Tracer, is_of_trace};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Kind, Schema, Value};

/// Transform `ActivateTracingSpan`, which begins spans for change events and adds headers with their trace context.
#[derive(Debug)]
pub struct ActivateTracingSpan {
    rules: SpanRules,
    tracer: Tracer,
    text: Arc<Schema>,
}

impl ActivateTracingSpan {
    /// Reads the options of the transform.
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> SpanRules {
        let (field, operation) = (settings.text(SpanRules::FIELD), settings.text(SpanRules::OPERATION));
        SpanRules::new(field, operation, settings.boolean(SpanRules::ONLY_WITH_CONTEXT, false))
    }

    /// Creates the transform from options that have been read.
    pub fn new(rules: SpanRules, tracer: Tracer) -> Self {
        Self { rules, tracer, text: Arc::new(Schema::new(Kind::String)) }
    }

    /// Returns the record with the headers of its span in place of the trace headers that it has. A record without a span is
    /// unchanged.
    pub fn trace<'a>(&self, mut record: SourceRecord<'a>) -> SourceRecord<'a> {
        if !is_change_event(&record.value) {
            return record;
        }
        let context =
            member(&record.value, "after").and_then(|(schema, row)| field(schema, row, &self.rules.field));
        let context = match context {
            Some(Value::Str(text)) => Some(text.as_ref()),
            Some(Value::Null) | None => None,
            // A context of another type cannot be read.
            Some(_) => Some(""),
        };
        let (table, moment) = row_moment(&record.value);
        let Some(begun) = self.tracer.begin(&self.rules, context, &table, moment) else { return record };
        record.headers.retain(|header| !is_of_trace(&header.name));
        for (name, text) in begun.headers() {
            let datum = Datum::new(Arc::clone(&self.text), Value::Str(Cow::Owned(text.to_owned())));
            record.headers.push(DatumHeader { name: Cow::Borrowed(name), datum });
        }
        self.tracer.open(&begun);
        record
    }
}

impl Transform for ActivateTracingSpan {
    fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        Ok(Some(self.trace(record)))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Returns the table of a change event, and the times, operation, LSN and transaction of its row.
fn row_moment(event: &Datum<'_>) -> (Arc<str>, RowMoment) {
    let source =
        |name: &str| member(event, "source").and_then(|(schema, source)| field(schema, source, name));
    let integer = |value: Option<&Value<'_>>| match value {
        Some(Value::Int64(number)) => Some(*number),
        _ => None,
    };
    let text = |name: &str| match source(name) {
        Some(Value::Str(text)) => text.as_ref(),
        _ => "",
    };
    let own = match (&event.schema, &event.value) {
        (Some(schema), Value::Struct(values)) => integer(field(schema, values, "ts_us")),
        _ => None,
    };
    let read_us = own.unwrap_or_default();
    let moment = RowMoment {
        committed_us: integer(source("ts_us")).unwrap_or(read_us),
        read_us,
        operation: letter(operation(event)),
        lsn: integer(source("lsn")).and_then(|lsn| u64::try_from(lsn).ok()).unwrap_or_default(),
        xid: integer(source("txId")),
    };
    (format!("{}.{}", text("schema"), text("table")).into(), moment)
}

fn letter(operation: Option<&str>) -> &'static str {
    ["c", "u", "d", "r", "t", "m"].into_iter().find(|known| Some(*known) == operation).unwrap_or_default()
}

/// Returns a struct in a change event, with its schema.
fn member<'d, 'a>(event: &'d Datum<'a>, name: &str) -> Option<(&'d Schema, &'d [Value<'a>])> {
    let (schema, Value::Struct(values)) = (event.schema.as_deref()?, &event.value) else { return None };
    let position = structs::position(schema, name)?;
    match values.get(position)? {
        Value::Struct(members) => Some((&structs::fields(schema).get(position)?.schema, members)),
        _ => None,
    }
}

fn field<'d, 'a>(schema: &Schema, values: &'d [Value<'a>], name: &str) -> Option<&'d Value<'a>> {
    values.get(structs::position(schema, name)?)
}
