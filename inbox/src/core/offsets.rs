use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Which offsets of a partition have ended, and so up to where it may be committed.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Received and not ended.
    open: BTreeSet<i64>,
    /// Behind the last one received.
    next: Option<i64>,
    /// What Kafka accepted last, and when that was.
    committed: Option<(i64, Instant)>,
}

impl Offsets {
    /// An event was received. `false` when it is open already.
    ///
    /// Invariant: nothing beyond what was read last is committed. Offsets that begin again below it are those of a topic that was
    /// made again, or of a reset, and the old ones say nothing about what will be read.
    pub(super) fn begin(&mut self, offset: i64) -> bool {
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
        self.open.insert(offset)
    }

    /// It is done, or given up.
    pub(super) fn end(&mut self, offset: i64) {
        self.open.remove(&offset);
    }

    /// Everything before this offset has ended.
    pub(super) fn contiguous_end(&self) -> Option<i64> {
        self.open.first().copied().or(self.next)
    }

    /// The same, while Kafka has not accepted it, and again when that was so long ago.
    pub(super) fn to_commit(&self, now: Instant, again_after: Duration) -> Option<i64> {
        let end = self.contiguous_end()?;
        let is_known = |(committed, at): (i64, Instant)| committed == end && now < at + again_after;
        (!self.committed.is_some_and(is_known)).then_some(end)
    }

    /// Kafka has accepted this.
    pub(super) fn set_committed(&mut self, end: i64, now: Instant) {
        self.committed = Some((end, now));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Offsets with gaps, ended in any order: never past one that is open, and the end when all have ended.
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
