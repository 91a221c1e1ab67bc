//! Kafka consumers that apply each event once, in order, and lose none.
//!
//! At-least-once delivery is safe only when a repeated event changes nothing. This crate stores in the service's own PostgreSQL
//! which events are done, in the same transaction as their changes.
//!
//! [`event`], [`dead_letter`], [`retry_topic`] and [`mod@core`] are sans-io: bytes and times in, values out. They build without any
//! feature. `kafka`, `postgres` and `redis` each connect to one server; `consumer` is the loop between the first two.
//!
//! [`idempotency`] is for requests, and for effects outside the database: it needs no Kafka.

#[cfg_attr(
    not(all(feature = "kafka", feature = "tokio-postgres")),
    allow(dead_code, unused_imports, reason = "the loop is what asks it")
)]
pub mod core;
pub mod dead_letter;
mod error;
#[cfg_attr(
    not(all(feature = "kafka", feature = "tokio-postgres")),
    allow(dead_code, unused_imports, reason = "the loop is what asks it")
)]
pub mod event;
pub mod idempotency;
#[cfg_attr(
    not(all(feature = "kafka", feature = "tokio-postgres")),
    allow(dead_code, unused_imports, reason = "the loop is what asks it")
)]
pub mod retry_topic;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "records")]
pub mod lease;

#[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
pub mod consumer;
#[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
pub mod outbox;
#[cfg(feature = "tokio-postgres")]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, unused_imports, reason = "the loop needs more of it than the records")
)]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
pub mod testing;

pub use error::Error;

// The code in these documents is compiled as tests.
#[cfg(all(doctest, feature = "kafka", feature = "redis", feature = "sqlx"))]
#[doc = include_str!("../README.md")]
mod readme {}
#[cfg(all(doctest, feature = "redis"))]
#[doc = include_str!("../docs/choosing.md")]
mod choosing {}

#[cfg(all(feature = "kafka", feature = "tokio-postgres"))]
pub use consumer::{Dedupe, Delivery, Failure, Inbox};

// The libraries whose types are in this one's signatures, so that a service need not repeat their versions.
#[cfg(feature = "kafka")]
pub use rdkafka;
#[cfg(feature = "sqlx")]
pub use sqlx;
#[cfg(feature = "tokio-postgres")]
pub use tokio_postgres;
