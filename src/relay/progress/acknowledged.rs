//! Transactions that a process has read and sent, as the next session compares them with the stream.

use crate::transaction::History;
use crate::wal::{Lsn, PgTimestamp};

/// Transactions of a server that this process has sent.
#[derive(Debug, Clone)]
pub(in crate::relay) struct Acknowledged {
    /// Every transaction that commits before this is acknowledged.
    pub(in crate::relay) to: Lsn,
    /// The transactions that this process has read.
    pub(in crate::relay) history: History,
}

impl Acknowledged {
    /// Creates it for a server whose clock is at `now`.
    pub(in crate::relay) const fn nothing(now: PgTimestamp) -> Self {
        Self { to: Lsn::ZERO, history: History::new(now) }
    }
}
