//! outboxd tails a PostgreSQL outbox table through logical replication and publishes its events to Kafka, byte for
//! byte as Debezium's PostgreSQL connector with the EventRouter transform does.
//!
//! ```text
//!             data: left to right only, rows never travel back
//!  walsender                                                                            brokers
//!    │ CopyData                                                                            ▲
//!    ▼                                                                                     │
//!  postgres::stream → replication → pgoutput → transaction → outbox → connect → kafka::producer
//!    ▲                                                                                     │
//!    │ StandbyStatusUpdate                                                  delivery report│
//!    └───────────── replication::feedback ←──────── ack::ledger ←──────── kafka::delivery ◀┘
//!             progress: right to left, LSNs only
//! ```
//!
//! The upper row and the ledger are sans-io: bytes in, values out, time as an argument. They build without the `io`
//! feature. [`relay`] is the only module that knows both PostgreSQL and Kafka.

pub mod error;
pub mod secret;

pub mod wal;
pub mod wire;

pub mod ack;
pub mod connect;
pub mod outbox;
pub mod pgoutput;
pub mod replication;
pub mod source_offset;
pub mod transaction;
pub mod verification;

#[cfg(feature = "io")]
pub mod cli;
#[cfg(feature = "io")]
pub mod config;
#[cfg(feature = "io")]
pub mod http;
#[cfg(feature = "io")]
mod http_client;
#[cfg(feature = "io")]
pub mod kafka;
#[cfg(feature = "io")]
pub mod postgres;
#[cfg(feature = "io")]
pub mod registry;
#[cfg(feature = "io")]
pub mod relay;
#[cfg(feature = "io")]
pub mod telemetry;
#[cfg(feature = "demo")]
pub mod throwaway;

/// Not part of the interface: what tests of the whole need besides, and nobody else should.
#[cfg(feature = "io")]
#[doc(hidden)]
pub mod internals {
    // tests/support/in_process.rs: a relay in the test's own process.
    pub use crate::cli::relay_parts;
}
