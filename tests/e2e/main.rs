//! outboxd against real servers: PostgreSQL 15 and 18, Apache Kafka.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and shows what it saw"
)]

mod check;
mod conformance;
mod crashes;
mod payloads;
mod servers;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod transactions;
