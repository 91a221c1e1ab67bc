//! The relay: the one loop that knows both sides.
//!
//! ```text
//! supervisor ── open ──▶ link (connections, slot, stream)     again after every failure that a retry can mend
//!     └──────── run ──▶ session (the loop) ── feed (rows → records, deliveries → ledger)
//! ```

mod backoff;
mod error;
mod feed;
mod link;
mod options;
mod preflight;
mod session;
mod snapshot;
mod supervisor;
mod watcher;

pub use error::Error;
pub(crate) use link::is_our_own;
pub use options::{Options, SkippedOperations};
pub use preflight::{Capture, Preflight};
pub(crate) use preflight::{OLDEST_VERSION_NUM, no_table, relation_of};
pub use supervisor::{Relay, RelayParts};
