use crate::transaction::History;
use crate::wal::{Lsn, PgTimestamp};

/// What this process has sent of a server's transactions.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    /// Every transaction that commits before this is acknowledged.
    pub(super) to: Lsn,
    /// The transactions that this process has read.
    pub(super) history: History,
}

impl Acknowledged {
    /// Of a server whose clock says `now`.
    pub(super) const fn nothing(now: PgTimestamp) -> Self {
        Self { to: Lsn::ZERO, history: History::new(now) }
    }
}
