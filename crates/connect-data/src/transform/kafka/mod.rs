//! Transforms of Kafka Connect (`org.apache.kafka.connect.transforms`).

pub(super) mod cast;
pub(super) mod extract_field;
pub(super) mod flatten;
pub(super) mod headers;
pub(super) mod hoist_field;
pub(super) mod insert_field;
mod literal;
pub(super) mod mask_field;
pub(super) mod replace_field;
pub(super) mod schema_metadata;
pub(super) mod timestamp_converter;
pub(super) mod topic_router;
pub(super) mod value_to_key;
