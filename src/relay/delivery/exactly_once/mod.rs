//! Exactly once, for consumers that read committed records only: rows go out in Kafka transactions, and each
//! transaction has a record that names its end. A start reads the last such record and skips everything up to
//! its end.
//!
//! ```text
//! START_REPLICATION succeeds ─▶ init_transactions ─▶ the state is read ─▶ rows up to it are passed over
//!        (the slot is ours)       (nobody else can       (what is in
//!                                  commit any more)       Kafka)
//!
//! rows ─▶ batch ── due ──▶ the state's record ── all acknowledged ──▶ commit ── done ──▶ the ledger, and PostgreSQL
//! ```

mod batch;
#[cfg(test)]
mod batch_tests;
mod known;
mod state;

pub(in crate::relay) use batch::{Batch, Names, Patience, Step, Urgency};
pub(crate) use known::Mismatch;
pub(in crate::relay) use known::{Begins, Known, Timelines};
pub(crate) use state::StateError;
pub(in crate::relay) use state::{Place, Source, State};
