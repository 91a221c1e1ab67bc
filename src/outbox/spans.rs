//! The spans of an outbox's rows.

use std::sync::Arc;

use super::error::RouteError;
use super::table::{BoundColumn, OutboxTable};
use crate::connect::converter::{Destination, Encoded};
use crate::connect::{Kind, Schema, Value};
use crate::pgoutput::ColumnValue;
use crate::trace::{Begun, RowMoment, SpanRules, Tracer};

/// What makes the spans of a table's rows.
#[derive(Debug)]
pub(crate) struct RowTracing {
    tracer: Tracer,
    rules: SpanRules,
    table: Arc<str>,
    /// Where a row tells the span that wrote it; the table need not have one.
    column: Option<BoundColumn>,
}

impl RowTracing {
    pub(super) fn new(tracer: Tracer, rules: SpanRules, table: &str, column: Option<BoundColumn>) -> Self {
        Self { tracer, rules, table: table.into(), column }
    }

    /// What becomes of a row; none when it has no spans.
    pub(crate) fn begin(&self, row: &[ColumnValue<'_>], moment: RowMoment) -> Option<Begun> {
        let value = self.column.as_ref().and_then(|column| row.get(column.index));
        let text = match value {
            Some(ColumnValue::Text(text)) => Some(std::str::from_utf8(text).unwrap_or_default()),
            _ => None,
        };
        self.tracer.begin(&self.rules, text, &self.table, moment)
    }

    /// The record is about to be sent.
    pub(crate) fn open(&self, begun: &Begun) {
        self.tracer.open(begun);
    }
}

impl OutboxTable {
    /// A header that tells the span.
    pub(super) fn span_header<'a>(
        &self,
        text: &'a str,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, RouteError> {
        let (schema, converter) = (Schema::new(Kind::String), &self.router.converters.header);
        let converted = converter.convert(Some(&schema), &Value::str(text), into);
        converted.map_err(|source| RouteError::Convert {
            table: self.table.clone(),
            column: self.router.options.spans.field.clone(),
            option: "header.converter",
            source,
        })
    }
}
