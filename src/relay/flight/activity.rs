use std::time::Instant;

use crate::relay::clock::Now;

/// What the status tells of a session's records.
#[derive(Debug, Default)]
pub(in crate::relay) struct Activity {
    /// Records that the broker has acknowledged.
    pub(in crate::relay) events: u64,
    /// When a record was last handed over.
    pub(in crate::relay) last_event: Option<Now>,
    /// Since when the oldest record on its way has been the oldest.
    pub(in crate::relay) oldest_unacknowledged: Option<Instant>,
}

impl Activity {
    pub(super) fn sent(&mut self, now: Now) {
        self.last_event = Some(now);
        self.oldest_unacknowledged.get_or_insert(now.instant);
    }

    pub(super) const fn acknowledged(&mut self, records: u64) {
        self.events = self.events.saturating_add(records);
    }

    /// What is oldest now was not before: its age counts from here.
    pub(super) const fn advanced(&mut self, now: Now) {
        self.oldest_unacknowledged = Some(now.instant);
    }

    /// Nothing is on its way.
    pub(super) const fn returned(&mut self) {
        self.oldest_unacknowledged = None;
    }
}
