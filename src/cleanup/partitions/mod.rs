//! Partitions of an outbox: those whose rows are all proven to be sent are dropped as a whole, and those that
//! will be needed are created.
//!
//! ```text
//! over? ─▶ a check without a lock ─▶ a lock: no writers ────▶ the same check again ─▶ archive ─▶ DROP or DETACH ─▶ commit
//!                                                              └──── a session waits for it: rollback ───┘
//! ```
//!
//! A clock or later rows decide when a partition is checked. Only the proof decides whether it is dropped.

mod bounds;
mod keep;
mod make;
#[cfg(test)]
mod model;
mod moment;
mod partman;
mod pattern;
mod take;
mod tend;
mod tree;

pub(crate) use partman::{Manager, Partman};
pub(crate) use take::SkipReason;
pub(crate) use tend::Event;
pub(crate) use tree::Tree;
