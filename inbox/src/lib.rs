//! Kafka consumers that apply each event once, in order, and lose none.
//!
//! At-least-once delivery is safe only when a repeated event changes nothing. This crate remembers in the service's own
//! PostgreSQL which events are done, in the same transaction as what they change.
//!
//! [`event`] and [`dead_letter`] are sans-io: bytes and times in, values out. They build without any feature.

pub mod dead_letter;
pub mod event;
