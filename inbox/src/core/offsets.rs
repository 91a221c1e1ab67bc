use std::collections::BTreeSet;

/// Which offsets of a partition have ended, and so up to where it may be committed.
#[derive(Debug, Default)]
pub(super) struct Offsets {
    /// Received and not ended.
    open: BTreeSet<i64>,
    /// Behind the last one received.
    next: Option<i64>,
    /// What was told last.
    told: Option<i64>,
}

impl Offsets {
    /// An event was received. `false` when it is open already.
    pub(super) fn begin(&mut self, offset: i64) -> bool {
        let next = offset.saturating_add(1);
        self.next = Some(self.next.map_or(next, |before| before.max(next)));
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

    /// The same, once for each value.
    pub(super) fn take_commit(&mut self) -> Option<i64> {
        let end = self.contiguous_end()?;
        if self.told == Some(end) {
            return None;
        }
        self.told = Some(end);
        Some(end)
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
    fn an_end_is_told_once() {
        let mut offsets = Offsets::default();
        assert_eq!(offsets.take_commit(), None);
        assert!(offsets.begin(7) && !offsets.begin(7));
        assert_eq!(offsets.take_commit(), Some(7));
        assert_eq!(offsets.take_commit(), None);
        offsets.end(7);
        assert_eq!(offsets.take_commit(), Some(8));
    }
}
