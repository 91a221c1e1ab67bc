//! Kafka consumers that apply each event once, in order, and lose none.
//!
//! At-least-once delivery is safe only when a repeated event changes nothing. This crate remembers in the service's own
//! PostgreSQL which events are done, in the same transaction as what they change.
//!
//! [`event`], [`dead_letter`] and [`mod@core`] are sans-io: bytes and times in, values out. They build without any feature.
//! `kafka` and `postgres` each know one server; `consumer` is the loop between them.

#[cfg_attr(not(feature = "tokio-postgres"), allow(dead_code, reason = "the loop is what asks it"))]
pub mod core;
pub mod dead_letter;
pub mod event;

#[cfg(feature = "kafka")]
pub mod kafka;

#[cfg(feature = "tokio-postgres")]
pub mod consumer;
#[cfg(feature = "tokio-postgres")]
pub mod postgres;

#[cfg(feature = "tokio-postgres")]
pub use consumer::{Delivery, Failure, Inbox};
