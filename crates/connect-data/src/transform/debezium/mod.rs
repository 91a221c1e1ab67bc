//! Transforms of Debezium (`io.debezium.transforms`, and that for TimescaleDB).

pub mod activate_tracing;
pub(super) mod changed_state;
pub(super) mod extract_schema;
pub(super) mod geometry;
pub(super) mod header_to_value;
pub(super) mod logical_router;
mod murmur;
pub(super) mod partition_routing;
pub(super) mod record_size;
pub(super) mod schema_change_filter;
pub mod timescale;
pub(super) mod timezone;
pub(super) mod unwrap;
pub(super) mod vector_to_json;
