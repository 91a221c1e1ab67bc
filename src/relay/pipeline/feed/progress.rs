//! The acknowledged part of the stream, as a later session and Debezium's offset need it.

use super::Feed;
use crate::kafka::Transport;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::time::clock::Now;
use crate::source_offset::SourceOffset;

impl<T: Transport> Feed<'_, T> {
    /// Returns what is acknowledged by now.
    pub(in crate::relay) fn acknowledged(&self) -> Acknowledged {
        self.earlier.acknowledged(self.out.flight.frontier())
    }

    /// Returns the offset of what is acknowledged, from which Debezium can continue; none while the stored
    /// one is as far.
    pub(in crate::relay) fn offset(&self, now: Now) -> Option<SourceOffset> {
        let flight = &self.out.flight;
        self.earlier.offset(flight.frontier(), flight.last_acknowledged(), now)
    }
}
