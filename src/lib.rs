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
//! The upper row and the ledger are sans-io: bytes in, values out, time as an argument. Most of it is in the crates
//! `pg-replication`, `connect-data` and `change-events`. `relay` is the only module that imports both PostgreSQL's and Kafka's side.
//!
//! The interface is the command line: [`cli::main`] is all that is public. `internals` is for the project's own tests.

mod error;
mod secret;

mod ack;
mod verification;

mod cleanup;
pub mod cli;
mod config;
mod credentials;
mod http;
mod http_client;
mod kafka;
mod key_store;
mod otlp;
mod postgres;
mod registry;
mod relay;
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
