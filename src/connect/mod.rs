//! The Kafka Connect data model and its converters: schemas, values, and the bytes they become.

pub mod record;
