//! Traces in the formats of W3C and OpenTelemetry: a row names the span that wrote it, and the record names the one
//! that sent it.
//!
//! ```text
//!   column ──carrier──▶ TraceContext ──Tracer::begin──▶ Begun: headers, and an open span
//!   acknowledgement ──SpanLog::finish──▶ FinishedSpan ──▶ exporter
//! ```
//!
//! # Invariants
//! - No function fails: an unreadable context counts as absent, and spans without room are counted and dropped.
//! - A span contains no value of a row.
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

pub use context::{SpanId, TraceContext, TraceId};
pub use log::SpanLog;
pub use rules::SpanRules;
pub use sampler::Sampler;
pub use span::{Delivery, FinishedSpan, OpenSpan, RowMoment, WRITE_OPERATION};
pub use tracer::{Begun, Seed, Tracer};

/// Name of the header, and of the entry in a row's context, that identifies the span.
pub const TRACEPARENT: &str = "traceparent";
/// Name of the header and entry with the vendor-specific state of the trace.
pub const TRACESTATE: &str = "tracestate";

/// Reports whether a header belongs to a trace context.
pub fn is_of_trace(header: &str) -> bool {
    matches!(header, TRACEPARENT | TRACESTATE)
}
