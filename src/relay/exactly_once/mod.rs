//! Exactly once, for consumers that read committed records only: rows go out in Kafka transactions, and each transaction
//! has a record that says how far it goes. A start reads the last such record and passes over what it tells of.
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

pub(super) use batch::{Batch, Names, Patience, Step, Urgency};
pub(crate) use known::Mismatch;
pub(super) use known::{Begins, Known, Timelines};
pub(crate) use state::StateError;
pub(super) use state::{Place, Source, State};
