//! Finished spans as OTLP has them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};

use crate::trace::{FinishedSpan, OpenSpan, SpanId, WRITE_OPERATION};

/// Value of `Span.flags`: recorded, and with a parent of this process.
const LOCAL_PARENT: u32 = 0x101;
const REMOTE_PARENT: u32 = 0x301;

/// Number of OTLP's spans of a record.
pub(super) const SPANS_OF_RECORD: usize = 2;

/// Makes the request that exports these.
pub(super) fn request(resource: &[(String, String)], done: &[FinishedSpan]) -> ExportTraceServiceRequest {
    let attributes = resource.iter().map(|(name, value)| attribute(name, text(value))).collect();
    let scope = InstrumentationScope {
        name: "outboxd".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let spans = done.iter().flat_map(|done| [write_span(done), send_span(done)]).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource { attributes, ..Resource::default() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

/// Makes the span from the commit to the acknowledgement. The attributes are OpenTelemetry's and, behind
/// them, Debezium's.
fn write_span(done: &FinishedSpan) -> Span {
    let OpenSpan { parent, table, row, write, .. } = &done.span;
    let mut attributes = vec![
        attribute("db.system.name", text("postgresql")),
        attribute("db.collection.name", text(table)),
        attribute("db.lsn", text(&row.lsn.to_string())),
        attribute("db.ts_ms", text(&row.committed_us.div_euclid(1_000).to_string())),
    ];
    attributes.extend(row.xid.map(|xid| attribute("db.txId", text(&xid.to_string()))));
    Span {
        name: WRITE_OPERATION.to_owned(),
        kind: SpanKind::Internal.into(),
        span_id: write.bytes().to_vec(),
        parent_span_id: parent.map_or_else(Vec::new, id),
        flags: if parent.is_some() { REMOTE_PARENT } else { LOCAL_PARENT },
        start_time_unix_nano: nanoseconds(done.committed_us()),
        attributes,
        ..shared(done)
    }
}

/// Makes the span from the reading to the acknowledgement.
fn send_span(done: &FinishedSpan) -> Span {
    let OpenSpan { name, row, write, send, .. } = &done.span;
    Span {
        name: name.as_ref().to_owned(),
        kind: SpanKind::Producer.into(),
        span_id: send.bytes().to_vec(),
        parent_span_id: id(*write),
        flags: LOCAL_PARENT,
        start_time_unix_nano: nanoseconds(row.read_us),
        attributes: vec![
            attribute("messaging.system", text("kafka")),
            attribute("messaging.operation.name", text("send")),
            attribute("messaging.operation.type", text("send")),
            attribute("messaging.destination.name", text(&done.topic)),
            attribute("messaging.destination.partition.id", text(&done.partition.to_string())),
            attribute("messaging.kafka.offset", Value::IntValue(done.offset)),
            attribute("op", text(row.operation)),
            attribute("ts_ms", text(&row.read_us.div_euclid(1_000).to_string())),
        ],
        ..shared(done)
    }
}

fn shared(done: &FinishedSpan) -> Span {
    Span {
        trace_id: done.span.trace.bytes().to_vec(),
        trace_state: done.span.state.clone().unwrap_or_default(),
        end_time_unix_nano: nanoseconds(done.ended_us()),
        ..Span::default()
    }
}

fn id(span: SpanId) -> Vec<u8> {
    span.bytes().to_vec()
}

fn nanoseconds(us: i64) -> u64 {
    u64::try_from(us).unwrap_or_default().saturating_mul(1_000)
}

fn text(value: &str) -> Value {
    Value::StringValue(value.to_owned())
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
