//! The acknowledged part of the stream, as a later session and Debezium's offset need it.

use super::Feed;
use crate::kafka::Transport;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::time::clock::Now;
use crate::source_offset::SourceOffset;

impl<T: Transport> Feed<'_, T> {
    /// Returns what is acknowledged by now.
    pub(in crate::relay) fn acknowledged(&self) -> Acknowledged {
        let mut acknowledged = self.acknowledged.clone();
        // A session that broke before it was as far as the last one knows less than that.
        acknowledged.to = acknowledged.to.max(self.out.flight.frontier());
        acknowledged.history.forget_from(acknowledged.to);
        acknowledged
    }

    /// Returns the offset of what is acknowledged, from which Debezium can continue; none while the stored
    /// one is as far.
    pub(in crate::relay) fn offset(&self, now: Now) -> Option<SourceOffset> {
        let stored = self.stored.as_ref();
        let frontier = self.out.flight.frontier();
        if stored.is_some_and(|stored| frontier <= stored.furthest()) {
            return None;
        }
        let (tx_id, committed_at) = match self.out.flight.last_acknowledged() {
            Some((xid, commit_time)) => (Some(u64::from(xid.0)), Some(commit_time)),
            None => (stored.and_then(|stored| stored.tx_id), stored.and_then(|stored| stored.committed_at)),
        };
        let committed_at = committed_at.unwrap_or(now.postgres());
        Some(SourceOffset::up_to(frontier, tx_id, committed_at))
    }
}
