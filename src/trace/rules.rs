use std::sync::Arc;

/// `tracing.*`, as the EventRouter and ActivateTracingSpan have them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpanRules {
    /// `tracing.span.context.field` (tracingspancontext): the column that names the span which wrote the row.
    pub(crate) field: String,
    /// `tracing.operation.name` (debezium-read): what the span that sends is called.
    pub(crate) operation: Arc<str>,
    /// `tracing.with.context.field.only` (true for the EventRouter, false for ActivateTracingSpan): rows without such a column, or with
    /// NULL there, have no spans.
    pub(crate) only_with_context: bool,
}

impl SpanRules {
    pub(crate) const FIELD: &'static str = "tracing.span.context.field";
    pub(crate) const OPERATION: &'static str = "tracing.operation.name";
    pub(crate) const ONLY_WITH_CONTEXT: &'static str = "tracing.with.context.field.only";

    /// With Debezium's names where none are given.
    #[must_use]
    pub(crate) fn new(field: Option<String>, operation: Option<String>, only_with_context: bool) -> Self {
        Self {
            field: field.unwrap_or_else(|| "tracingspancontext".to_owned()),
            operation: operation.map_or_else(|| "debezium-read".into(), Into::into),
            only_with_context,
        }
    }
}
