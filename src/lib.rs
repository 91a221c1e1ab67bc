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
//! feature. `relay` is the only module that knows both PostgreSQL and Kafka.
//!
//! The interface is the command line: [`cli::main`] is all that is public. `internals` is for the project's own tests.

#![cfg_attr(
    not(feature = "io"),
    allow(dead_code, unused_imports, unreachable_pub, reason = "half of the library is left out")
)]

mod error;
mod secret;

mod ack;
mod verification;

#[cfg(feature = "io")]
mod cleanup;
#[cfg(feature = "io")]
pub mod cli;
#[cfg(feature = "io")]
mod config;
#[cfg(feature = "io")]
mod credentials;
#[cfg(feature = "io")]
mod http;
#[cfg(feature = "io")]
mod http_client;
#[cfg(feature = "io")]
mod kafka;
#[cfg(feature = "io")]
mod key_store;
#[cfg(feature = "io")]
mod otlp;
#[cfg(feature = "io")]
mod postgres;
#[cfg(feature = "io")]
mod registry;
#[cfg(feature = "io")]
mod relay;
#[cfg(feature = "io")]
mod telemetry;
#[cfg(feature = "demo")]
mod throwaway;

use change_events::{change, outbox, signal, source_offset};
use connect_data as connect;
use connect_data::trace;
use pg_replication::{pgoutput, replication, transaction, wal, wire};

/// Not part of the interface.
#[doc(hidden)]
pub mod internals;
