//! Options of traces.

use std::sync::Arc;

/// `tracing.*` options of the EventRouter and ActivateTracingSpan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanRules {
    /// `tracing.span.context.field` (tracingspancontext): column that names the span which wrote the row.
    pub field: String,
    /// `tracing.operation.name` (debezium-read): name of the span that sends.
    pub operation: Arc<str>,
    /// `tracing.with.context.field.only` (true for the EventRouter, false for ActivateTracingSpan): true to make no
    /// spans for rows without such a column, or with NULL in it.
    pub only_with_context: bool,
}

impl SpanRules {
    /// The option that names the column with the context.
    pub const FIELD: &'static str = "tracing.span.context.field";
    /// The option that names the span that sends.
    pub const OPERATION: &'static str = "tracing.operation.name";
    /// The option that limits spans to rows with a context.
    pub const ONLY_WITH_CONTEXT: &'static str = "tracing.with.context.field.only";

    /// Creates the rules, with Debezium's names as defaults.
    #[must_use]
    pub fn new(field: Option<String>, operation: Option<String>, only_with_context: bool) -> Self {
        Self {
            field: field.unwrap_or_else(|| "tracingspancontext".to_owned()),
            operation: operation.map_or_else(|| "debezium-read".into(), Into::into),
            only_with_context,
        }
    }
}
