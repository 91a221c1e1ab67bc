//! Kafka: the producer and its delivery reports.

mod options;

pub use options::Options;
