//! The times of the last sent and acknowledged records: the source of the lag and of the warning that Kafka is silent.

use std::time::Instant;

use crate::relay::time::clock::Now;

/// Activity of a session's records, for the status.
#[derive(Debug, Default)]
pub(in crate::relay) struct Activity {
    /// Records that the broker has acknowledged.
    pub(in crate::relay) events: u64,
    /// Time at which a record was last handed over.
    pub(in crate::relay) last_event: Option<Now>,
    /// Since when the oldest record on its way has been the oldest.
    pub(in crate::relay) oldest_unacknowledged: Option<Instant>,
    /// Since when records are on their way and none was acknowledged.
    pub(in crate::relay) silent_since: Option<Instant>,
}

impl Activity {
    pub(super) fn sent(&mut self, now: Now) {
        self.last_event = Some(now);
        self.oldest_unacknowledged.get_or_insert(now.instant);
        self.silent_since.get_or_insert(now.instant);
    }

    pub(super) const fn acknowledged(&mut self, records: u64, now: Now) {
        self.events = self.events.saturating_add(records);
        self.silent_since = Some(now.instant);
    }

    /// Restarts the age of the oldest record, because another record is the oldest now.
    pub(super) const fn advanced(&mut self, now: Now) {
        self.oldest_unacknowledged = Some(now.instant);
    }

    /// Records that nothing is in flight.
    pub(super) const fn returned(&mut self) {
        (self.oldest_unacknowledged, self.silent_since) = (None, None);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn kafka_is_silent_while_records_are_on_their_way_and_none_is_acknowledged() {
        let (mut activity, start) = (Activity::default(), Instant::now());
        let at = |seconds| Now { instant: start + Duration::from_secs(seconds), unix_us: 0 };
        [at(1), at(2)].into_iter().for_each(|now| activity.sent(now));
        assert_eq!(activity.silent_since, Some(at(1).instant));
        activity.acknowledged(1, at(5));
        assert_eq!(activity.silent_since, Some(at(5).instant), "the transaction need not be complete");
        activity.returned();
        assert_eq!(activity.silent_since, None);
    }
}
