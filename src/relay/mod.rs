//! The relay: the one loop that knows both sides.
//!
//! ```text
//! supervisor ── open ──▶ link (connections, slot, stream)     again after every failure that a retry can mend
//!     └──────── run ──▶ session (the loop) ── feed (rows → records) ── flight (delivery reports → ledger)
//! ```

mod backoff;
mod dead_letters;
mod error;
mod exactly_once;
mod feed;
mod flight;
mod heartbeat;
mod intake;
mod link;
mod memory;
mod needs;
mod offset_file;
mod offsets;
mod options;
mod preflight;
mod publication_guard;
mod repeats;
mod session;
#[cfg(test)]
mod simulation;
mod slot_guard;
mod snapshot;
mod supervisor;
mod tolerance;
mod topics;
mod watcher;

pub use dead_letters::DeadLetters;
pub use error::Error;
pub use exactly_once::{Mismatch, StateError};
pub(crate) use link::is_our_own;
pub use options::{
    DeadLetterOptions, Guarantee, GuardOptions, HeartbeatOptions, OffsetOptions, OffsetStore, Options,
    ProcessingFailure, SkippedOperations, TransactionOptions,
};
pub use preflight::{Capture, Preflight};
pub(crate) use preflight::{OLDEST_VERSION_NUM, left_out, no_table, relation_of};
pub use supervisor::{Relay, RelayParts};
