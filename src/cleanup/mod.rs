//! Takes rows of the outbox away that are proven to be sent: `outboxd cleanup`, and `outboxd.cleanup.*` inside `run`.
//!
//! ```text
//! horizon (xid H, then the end E of the WAL) ─▶ wait until the slot is confirmed up to E ─▶ rows with xid < H, a few at a time
//!                                                                                               │
//!                                              pace: lock and statement time-outs, replicas, old transactions
//! ```
//!
//! A row is proven by the commit of its transaction, never by a clock: see [`Horizon`].

mod archive;
mod catalog;
mod horizon;
#[cfg(test)]
mod model;
mod options;
mod pace;
mod partitions;
mod pass;

pub(crate) use archive::{Archive, ConvertError, Converted};
pub(crate) use catalog::{Doubt, Leaf, captured_archive, doubts, leaves};
pub(crate) use horizon::Horizon;
pub(crate) use options::{ArchiveFormat, ArchiveTo, CleanupOptions, Partitions};
pub(crate) use pace::Busy;
pub(crate) use partitions::{Event, Manager, Partman, SkipReason, Tree};
pub(crate) use pass::{Count, Pass, PassError};
