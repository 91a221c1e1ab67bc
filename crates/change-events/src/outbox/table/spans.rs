//! The spans of an outbox's rows.

use std::sync::Arc;

use super::{BoundColumn, OutboxTable};
use crate::outbox::error::RouteError;
use connect_data::converter::{Destination, Encoded};
use connect_data::trace::{Begun, RowMoment, SpanRules, Tracer};
use connect_data::{Kind, Schema, Value};
use pg_replication::pgoutput::ColumnValue;

/// Tracer of a table's rows.
#[derive(Debug)]
pub struct RowTracing {
    tracer: Tracer,
    rules: SpanRules,
    table: Arc<str>,
    /// The column with the context of the span that wrote the row; the table need not have one.
    column: Option<BoundColumn>,
}

impl RowTracing {
    pub(in crate::outbox) fn new(
        tracer: Tracer,
        rules: SpanRules,
        table: &str,
        column: Option<BoundColumn>,
    ) -> Self {
        Self { tracer, rules, table: table.into(), column }
    }

    /// Begins the spans of a row; returns `None` if it has none.
    pub fn begin(&self, row: &[ColumnValue<'_>], moment: RowMoment) -> Option<Begun> {
        let value = self.column.as_ref().and_then(|column| row.get(column.index));
        let text = match value {
            Some(ColumnValue::Text(text)) => Some(std::str::from_utf8(text).unwrap_or_default()),
            _ => None,
        };
        self.tracer.begin(&self.rules, text, &self.table, moment)
    }

    /// Opens the span of a record that is about to be sent.
    pub fn open(&self, begun: &Begun) {
        self.tracer.open(begun);
    }
}

impl OutboxTable {
    /// Converts a header with the span's context.
    pub(in crate::outbox) fn span_header<'a>(
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
