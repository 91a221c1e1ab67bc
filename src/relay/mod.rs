//! The relay: the one loop that knows both sides.
//!
//! ```text
//! supervisor ── open ──▶ link (connections, slot, stream)     again after every failure that a retry can mend
//!     └──────── run ──▶ session (waits) ── core (decides) ── feed ── dispatch ── flight
//!
//! feed: rows become records. dispatch: what is known of them beforehand. flight: what comes back, and the ledger.
//! ```

mod acknowledged;
mod asking;
mod backoff;
mod capture;
mod chunk_reader;
mod cleaner;
mod clock;
mod comparison;
mod control;
mod core;
mod dead_letters;
mod delay;
mod dispatch;
mod error;
mod exactly_once;
mod feed;
mod flight;
mod heartbeat;
mod heartbeat_query;
mod hypertables;
mod last_state;
mod link;
mod liveness;
mod lookout;
mod mailbox;
mod memory;
mod needs;
mod newcomers;
mod notification_posts;
mod notifier;
mod offset_file;
mod offsets;
mod opening;
mod options;
mod origin;
mod parts;
mod position;
mod position_store;
mod preflight;
mod publication_guard;
mod repeats;
mod resolution;
mod resolver;
mod retry;
mod route;
mod selected;
mod session;
mod signal_channels;
mod signals;
#[cfg(test)]
mod simulation;
mod slot_guard;
mod slot_start;
mod slot_xmin;
mod snapshot;
mod snapshot_start;
mod snapshots_left;
mod standby;
mod supervisor;
mod table;
mod takeover;
mod tolerance;
mod watcher;

pub(crate) use capture::{in_the_publication, left_out, near_miss, not_in_the_wal};
pub(crate) use cleaner::{OnlyCopies, Unsuited, ValuelessLetters, is_captured, suits};
pub(crate) use comparison::first_start;
pub use control::{Control, Target};
pub(crate) use dead_letters::DeadLetters;
pub use error::Error;
pub(crate) use hypertables::learn as learn_hypertables;
pub(crate) use notification_posts::{NotificationPosts, PostOptions};
pub(crate) use offsets::{StoredOffset, stored_offset};
pub(crate) use opening::is_our_own;
pub(crate) use options::{
    DeadLetterOptions, Guarantee, GuardOptions, HeartbeatOptions, OffsetOptions, OffsetStore, Options,
    PositionOptions, ProcessingFailure, SkippedOperations, TransactionOptions,
};
pub(crate) use parts::RelayParts;
pub(crate) use position::Phase;
#[cfg(test)]
pub(crate) use position::RecordError;
pub(crate) use position_store::{KeptPosition, kept_position};
pub(crate) use preflight::Capture;
pub(crate) use preflight::{OLDEST_VERSION_NUM, check_server, no_table, none_yet};
pub(crate) use resolution::relation_of;
pub(crate) use route::Route;
pub use supervisor::Relay;
