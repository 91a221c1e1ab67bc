//! The example `payments` against a real PostgreSQL and Kafka, while everything around it goes wrong.
//!
//! The example runs as a process of its own, which is this test binary again: so it is never an older build.

#![allow(clippy::incompatible_msrv, reason = "it is built with the toolchain of the project")]
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

#[path = "../../examples/saga/app.rs"]
#[allow(dead_code, reason = "its main is called by one test only")]
mod saga_app;

#[path = "../../examples/sequence/app.rs"]
#[allow(dead_code, reason = "its main is called by one test only")]
mod sequence_app;

mod batch_proof;
mod claims;
mod commit_proof;
mod doubt;
mod errors;
mod faults;
mod harness;
mod headers;
mod identity;
mod ledger;
mod named;
mod old_relays;
mod old_ways;
mod older_state;
mod operator;
mod parking;
mod payments;
mod position;
mod process;
mod recipes;
mod relay;
mod retry_topics;
mod running;
mod saga;
mod sequence;
mod settings;
mod shop;
mod support;
mod with_sqlx;
mod wrapped;
