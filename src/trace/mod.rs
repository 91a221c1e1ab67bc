//! Traces, as W3C and OpenTelemetry have them: a row tells the span that wrote it, and the record tells the one that sent it.
//!
//! ```text
//!   column ──carrier──▶ TraceContext ──Tracer::begin──▶ Begun: headers, and an open span
//!   acknowledgement ──SpanLog::finish──▶ FinishedSpan ──▶ whoever exports them
//! ```
//!
//! # Invariants
//! - Nothing here can fail: a context that cannot be read is none, and what has no room is counted and forgotten.
//! - No value of a row gets into a span.
//!
//! # References
//! - <https://www.w3.org/TR/trace-context/>
//! - `io.debezium.transforms.tracing.TracingSpanUtil`, which has the names of the spans and of the options.

mod carrier;
mod context;
mod log;
mod rules;
mod sampler;
mod span;
mod tracer;

pub(crate) use context::SpanId;
#[cfg(test)]
pub(crate) use context::{TraceContext, TraceId};
pub(crate) use log::SpanLog;
pub(crate) use rules::SpanRules;
pub(crate) use sampler::Sampler;
pub(crate) use span::{Delivery, FinishedSpan, OpenSpan, RowMoment, WRITE_OPERATION};
pub(crate) use tracer::{Begun, Seed, Tracer};

/// The header, and the entry of a row's context, that names the span.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The one that has what vendors say about the trace.
pub(crate) const TRACESTATE: &str = "tracestate";

/// Whether a header tells a span.
pub(crate) fn is_of_trace(header: &str) -> bool {
    matches!(header, TRACEPARENT | TRACESTATE)
}
