use crate::transaction::History;
use crate::wal::{Lsn, PgTimestamp};

/// What this process has sent of a server's transactions.
#[derive(Debug, Clone)]
pub(super) struct Acknowledged {
    /// Every transaction that commits before this is acknowledged.
    pub(super) to: Lsn,
    /// The transactions that this process has read.
    pub(super) history: History,
    /// What an earlier process has sent beyond the slot, when the slot does not tell it.
    pub(super) sent: Option<SentUpTo>,
}

/// Up to where everything is acknowledged, as the position in Kafka says: with `lsn.flush.mode=manual` the slot stays behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SentUpTo {
    pub(super) lsn: Lsn,
    /// When the last transaction before it committed that had something to send.
    pub(super) committed: PgTimestamp,
}

impl SentUpTo {
    /// Whether this transaction was sent. A copy of the server's data that was put back writes others where the old ones were,
    /// and they commit later: what is not certain is sent again.
    pub(super) fn has(&self, commit_lsn: Lsn, committed: Option<PgTimestamp>) -> bool {
        commit_lsn < self.lsn && committed.is_some_and(|committed| committed <= self.committed)
    }
}

impl Acknowledged {
    /// Of a server whose clock says `now`.
    pub(super) const fn nothing(now: PgTimestamp) -> Self {
        Self { to: Lsn::ZERO, history: History::new(now), sent: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_before_the_place_and_is_not_newer_was_sent() {
        let sent = SentUpTo { lsn: Lsn::new(500), committed: PgTimestamp(70) };
        let cases = [
            (499, Some(70), true),
            (100, Some(3), true),
            (500, Some(70), false),
            // Of a copy that was put back: the place was another's.
            (400, Some(71), false),
            // A message without a transaction does not say when it was written.
            (400, None, false),
        ];
        for (lsn, committed, expected) in cases {
            assert_eq!(sent.has(Lsn::new(lsn), committed.map(PgTimestamp)), expected, "{lsn} {committed:?}");
        }
    }
}
