//! Spans to an OpenTelemetry collector: OTLP over HTTP, as protobuf.
//!
//! ```text
//!   SpanLog ──take──▶ message ──▶ client: POST /v1/traces ──▶ collector
//!             Exporter: when a batch is full, or its time has come, and at the end
//! ```
//!
//! The messages are OpenTelemetry's own (`opentelemetry-proto`), the connection is [`crate::http_client`]'s.
//! The exporters of `opentelemetry-otlp` bring reqwest or tonic, and threads of their own.
//!
//! # Invariants
//! - The relay never waits for a collector: what has no room is dropped and counted.
//! - An exporter is one task. It ends when it is stopped, after it has sent what there is, or when the caller drops it.
//!
//! # References
//! - <https://opentelemetry.io/docs/specs/otlp/#otlphttp>
//! - <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/>

mod client;
mod error;
mod exporter;
mod message;
mod options;

pub(crate) use error::Error;
pub(crate) use exporter::Exporter;
pub(crate) use options::Options;
