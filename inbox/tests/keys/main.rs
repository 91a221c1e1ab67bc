//! Idempotency records, leases and HTTP against a real PostgreSQL and Redis, beside the usual code by hand.

#![allow(clippy::incompatible_msrv, reason = "it is built with the toolchain of the project")]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::expect_used,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

#[path = "../e2e/support/mod.rs"]
mod base;
#[path = "../../examples/http/app.rs"]
#[allow(dead_code, reason = "its main is called by one test only")]
mod http_app;

mod http_service;
mod leases;
mod old_ways;
mod redis_servers;
mod stores;
mod support;
mod walk;
