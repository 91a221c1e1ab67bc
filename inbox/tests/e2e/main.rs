//! The example `payments` against a real PostgreSQL and Kafka, while everything around it goes wrong.
//!
//! The example runs as a process of its own, which is this test binary again: so it is never an older build.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "../../examples/payments/app.rs"]
#[allow(dead_code, reason = "its main is called by one test only")]
mod payments_app;

mod faults;
mod payments;
mod shop;
mod support;
