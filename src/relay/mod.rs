//! The relay: the loop between PostgreSQL and Kafka.
//!
//! ```text
//! supervisor ── open ──▶ link (connections, slot, stream)     again after every failure that can be retried
//!     └──────── run ──▶ session (waits) ── core (decides) ── feed ── dispatch ── flight
//!
//! feed: rows become records. dispatch: what is known of them beforehand. flight: what comes back, and the ledger.
//! ```
//!
//! The rooms, from bottom to top; each imports only those before it, and the files at the top of this folder:
//!
//! - [`time`]: clock, pauses.
//! - [`capture`]: captured tables, publication, catalog.
//! - [`delivery`]: records in flight, repeats, dead letters, exactly_once.
//! - [`progress`]: the position, where it is stored, what a start makes of it.
//! - [`pipeline`]: from a message to records and back to an LSN, without sockets and clocks.
//! - [`snapshot`]: rows that are read instead of streamed.
//! - [`background`]: tasks beside a session.
//! - [`lifecycle`]: start, take-over, stream, drain, end.

mod background;
mod capture;
mod delivery;
mod error;
mod lifecycle;
mod options;
mod origin;
mod parts;
mod pipeline;
mod progress;
#[cfg(test)]
mod simulation;
mod snapshot;
mod time;

pub(crate) use background::cleaner::{CleanupObstacle, OnlyCopies, ValuelessDeadLetters, is_captured, suits};
pub(crate) use background::file_settings::FileSettings;
pub(crate) use capture::captured::{excluded_by_predicate, in_the_publication, near_miss, not_in_the_wal};
pub(crate) use capture::hypertables::learn as learn_hypertables;
pub(crate) use capture::preflight::Capture;
pub(crate) use capture::preflight::{OLDEST_VERSION_NUM, check_server, no_table, none_yet};
pub(crate) use capture::resolution::relation_of;
pub(crate) use capture::route::Route;
pub(crate) use delivery::dead_letters::DeadLetters;
pub(crate) use delivery::notification_posts::{NotificationPosts, PostOptions};
pub use error::Error;
pub use lifecycle::control::{Control, Target};
pub(crate) use lifecycle::next_start::NextStart;
pub(crate) use lifecycle::order::{StartStep, is_our_own};
pub use lifecycle::supervisor::Relay;
pub(crate) use options::{
    DeadLetterOptions, Guarantee, GuardOptions, HeartbeatOptions, OffsetOptions, OffsetStore, Options,
    PositionOptions, ProcessingFailure, SkippedOperations, TransactionOptions,
};
pub(crate) use parts::{RelayParts, RowsAtStart};
pub(crate) use pipeline::signals::SIGNAL_PREFIX;
pub(crate) use progress::comparison::FIRST_START;
pub(crate) use progress::offsets::{StoredOffset, stored_offset};
pub(crate) use progress::position::Phase;
#[cfg(test)]
pub(crate) use progress::position::RecordError;
pub(crate) use progress::position_store::{StoredPosition, stored_position};
