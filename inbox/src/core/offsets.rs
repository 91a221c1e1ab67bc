//! Ended offsets of a partition.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

/// Offsets of a partition that have ended, which determine the offset to commit.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Offsets that were received and have not ended, with the number of their events: a topic that was created again has other events
    /// with the same offsets.
    open: BTreeMap<i64, u32>,
    /// First offset received.
    first: Option<i64>,
    /// Offset after the last one received.
    next: Option<i64>,
    /// Offset that Kafka accepted last, and the time of that.
    committed: Option<(i64, Instant)>,
}

impl Offsets {
    /// Adds a received offset. Returns `false` if it is open already.
    ///
    /// Invariant: nothing beyond the last offset read is committed. Offsets that restart below it come from a topic that was
    /// created again, or from a reset of offsets. The old offsets then give no information about the events to come.
    pub(super) fn begin(&mut self, offset: i64) -> bool {
        self.first.get_or_insert(offset);
        let next = offset.saturating_add(1);
        if let Some(before) = self.next.replace(next)
            && next < before
        {
            tracing::warn!(
                before,
                now = offset,
                "offsets begin again: the topic was made again, or offsets were reset"
            );
        }
        match self.open.entry(offset) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(1);
                true
            }
        }
    }

    /// Adds an event whose offset is open already, for another event.
    pub(super) fn begin_another(&mut self, offset: i64) {
        let count = self.open.entry(offset).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn first(&self) -> Option<i64> {
        self.first
    }

    /// Marks an offset as ended: its event is done or given up.
    pub(super) fn end(&mut self, offset: i64) {
        let Some(count) = self.open.get_mut(&offset) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.open.remove(&offset);
        }
    }

    /// Returns the offset before which all events have ended.
    pub(super) fn contiguous_end(&self) -> Option<i64> {
        self.open.keys().next().copied().or(self.next)
    }

    /// Returns the offset to commit: the contiguous end if Kafka has not accepted it, or accepted it at least `again_after` ago.
    pub(super) fn to_commit(&self, now: Instant, again_after: Duration) -> Option<i64> {
        let end = self.contiguous_end()?;
        let is_known = |(committed, at): (i64, Instant)| committed == end && now < at + again_after;
        (!self.committed.is_some_and(is_known)).then_some(end)
    }

    /// Records that Kafka has accepted an offset.
    pub(super) fn set_committed(&mut self, end: i64, now: Instant) {
        self.committed = Some((end, now));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Offsets with gaps end in any order: the end is never past an open offset, and is the last one when all have ended.
        #[test]
        fn the_end_is_that_of_the_naive_model(gaps in prop::collection::vec(1..4_i64, 1..20), order in any::<u64>()) {
            let received: Vec<i64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut ends = received.clone();
            fastrand::Rng::with_seed(order).shuffle(&mut ends);
            let mut offsets = Offsets::default();
            for offset in &received {
                prop_assert!(offsets.begin(*offset));
            }
            for done in 0..=ends.len() {
                let open = received.iter().find(|offset| !ends[..done].contains(offset));
                let expected = open.copied().unwrap_or(received[received.len() - 1] + 1);
                prop_assert_eq!(offsets.contiguous_end(), Some(expected));
                if let Some(offset) = ends.get(done) {
                    offsets.end(*offset);
                }
            }
        }
    }

    #[test]
    fn an_end_is_to_be_committed_until_kafka_has_accepted_it_and_again_later() {
        const AGAIN_AFTER: Duration = Duration::from_secs(60);
        let now = Instant::now();
        let mut offsets = Offsets::default();
        let due = |offsets: &Offsets, now| offsets.to_commit(now, AGAIN_AFTER);
        assert_eq!(due(&offsets, now), None);
        assert!(offsets.begin(7) && !offsets.begin(7));
        assert_eq!((due(&offsets, now), due(&offsets, now)), (Some(7), Some(7)));
        offsets.end(7);
        offsets.set_committed(7, now);
        assert_eq!(due(&offsets, now), Some(8));
        offsets.set_committed(8, now);
        assert_eq!(due(&offsets, now), None);
        assert_eq!(due(&offsets, now + AGAIN_AFTER), Some(8));
    }
}
