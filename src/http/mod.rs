//! The status port: a page for people, probes and metrics, for reading only.
//!
//! | path | answers |
//! | --- | --- |
//! | `/` | the status page: [`Overview`](crate::telemetry::Overview) for a person |
//! | `/status` | the same as JSON, for the commands |
//! | `/livez`, `/q/health/live` | 200 while the loop turns, whatever the servers do |
//! | `/readyz`, `/q/health/ready`, `/q/health` | 200 while it streams and is acknowledged in time, or stands by |
//! | `/startupz`, `/q/health/started` | 200 once it has streamed or stood by |
//! | `/health` | the same in the form of Kafka Connect's worker |
//! | `/metrics`, `/q/metrics` | OpenMetrics text |
//!
//! The bodies are those of Debezium Server (MicroProfile Health) and of Kafka Connect, so that what watches
//! them can watch us. The port listens on this machine alone unless a host is given.

mod address;
mod health;
mod instance;
mod page;
mod probe;
mod routes;
mod server;

pub(crate) use address::{InvalidAddress, parse_addr};
pub(crate) use instance::{AskError, Instance, InvalidInstance};
pub(crate) use probe::probe;
pub(crate) use server::Server;
