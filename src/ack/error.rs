//! Errors of the ledger.

use super::Ticket;
use crate::wal::Lsn;

/// A sequence of events that cannot happen while the protocol and the producer keep their word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// A transaction began inside another.
    #[error("transaction with commit at {commit_lsn} begins inside another")]
    BeginInsideTransaction {
        /// The commit LSN that `Begin` announced.
        commit_lsn: Lsn,
    },
    /// A record or a commit came outside a transaction.
    #[error("a change or commit came outside a transaction")]
    OutsideTransaction,
    /// Transactions did not come in commit order.
    #[error("transaction with commit at {commit_lsn} comes after {previous}")]
    CommitOrder {
        /// The commit LSN that `Begin` announced.
        commit_lsn: Lsn,
        /// The commit LSN before it.
        previous: Lsn,
    },
    /// `Commit` does not close the transaction that `Begin` opened.
    #[error("commit at {found} (end {end}) closes the transaction that announced {announced}")]
    CommitMismatch {
        /// Commit LSN that `Begin` announced.
        announced: Lsn,
        /// Commit LSN of `Commit`.
        found: Lsn,
        /// `end_lsn` of `Commit`.
        end: Lsn,
    },
    /// A delivery report for a record that was never handed over, or for the second time.
    #[error("a delivery report names ticket {0:?}, which has nothing outstanding")]
    UnknownTicket(Ticket),
}
