//! Partitions of an outbox: those of which every row is proven go as a whole, and those that will be needed are made.
//!
//! ```text
//! over? ─▶ a look without a lock ─▶ a lock: nobody writes ─▶ the same look again ─▶ archive ─▶ DROP or DETACH ─▶ commit
//!                                                              └──── somebody waits for it: rollback ────┘
//! ```
//!
//! Whether a partition is over says when it is worth a look, by a clock or by later rows. Whether it goes says the proof alone.

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
pub(crate) use take::Left;
pub(crate) use tend::Event;
pub(crate) use tree::Tree;
