use std::collections::VecDeque;

use crate::pgoutput::Begin;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// How many of the last transactions are remembered one by one, 32 bytes each. Of those before only the latest commit
/// time is known.
const REMEMBERED_MAX: usize = 4096;

/// The transactions that were read, as far as is needed to tell whether a server that is asked for them again has the
/// same ones.
///
/// A copy of a server's data that is put back has the same system identifier and timeline, and writes other transactions
/// where the old ones were. They commit later than everything that was read before, and the transactions that were read
/// are gone. An LSN alone tells neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct History {
    /// Nothing that was read committed later.
    latest: PgTimestamp,
    /// The last transactions that were read, without a gap.
    last: VecDeque<(Lsn, Identity)>,
    /// Which of them must come next.
    next: usize,
}

/// What tells a transaction from every other one at its LSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// As `Begin` says.
    Transaction {
        /// Its id.
        xid: Xid,
        /// When it committed, by the server's clock.
        commit_time: PgTimestamp,
    },
    /// A logical message outside a transaction has neither: a digest of what it says.
    Message(u64),
}

/// How a server's transactions differ from those that were read there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// A transaction that lies before what was read is newer than all that was read.
    #[error(
        "the transaction at {commit_lsn} lies before what was read, and committed {} s later than all of that",
        seconds(*.commit_time, *.latest)
    )]
    Later {
        /// Where it commits.
        commit_lsn: Lsn,
        /// When it committed.
        commit_time: PgTimestamp,
        /// Nothing that was read committed later than this.
        latest: PgTimestamp,
    },
    /// A transaction is at a place where none was, or another one.
    #[error("the transaction at {0} is not the one that was read there")]
    Other(Lsn),
    /// A transaction that was read is not there any more.
    #[error("the transaction that was read at {0} is not there any more")]
    Missing(Lsn),
}

impl From<&Begin> for Identity {
    fn from(begin: &Begin) -> Self {
        Self::Transaction { xid: begin.xid, commit_time: begin.commit_time }
    }
}

impl Identity {
    /// When it committed, if that is known.
    #[must_use]
    pub(crate) const fn commit_time(self) -> Option<PgTimestamp> {
        match self {
            Self::Transaction { commit_time, .. } => Some(commit_time),
            Self::Message(_) => None,
        }
    }
}

impl History {
    /// Nothing was read yet. What others have read committed before `now`, by the server's clock.
    #[must_use]
    pub(crate) const fn new(now: PgTimestamp) -> Self {
        Self { latest: now, last: VecDeque::new(), next: 0 }
    }

    /// The stream begins at `from`: the transactions that were read and commit from there on must come again.
    pub(crate) fn resume(&mut self, from: Lsn) {
        self.next = self.last.partition_point(|(lsn, _)| *lsn < from);
    }

    /// A transaction begins that lies before what was read. False when nothing tells whether it was read: a message without a
    /// commit time, and nothing behind it that must come again.
    ///
    /// # Errors
    /// When it is not the one that was read.
    pub(crate) fn meet_again(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<bool, Divergence> {
        let latest = self.latest;
        if let Some(commit_time) = identity.commit_time().filter(|time| *time > latest) {
            return Err(Divergence::Later { commit_lsn, commit_time, latest });
        }
        match self.last.get(self.next) {
            Some((lsn, _)) if *lsn < commit_lsn => return Err(Divergence::Missing(*lsn)),
            Some(known) if *known == (commit_lsn, identity) => self.next = self.next.saturating_add(1),
            // It lies before those that are remembered one by one.
            Some((lsn, _)) if *lsn > commit_lsn && self.next == 0 => {}
            None if self.last.is_empty() => return Ok(identity.commit_time().is_some()),
            Some(_) | None => return Err(Divergence::Other(commit_lsn)),
        }
        Ok(true)
    }

    /// Everything before `wal_end` has come.
    ///
    /// # Errors
    /// When a transaction there, which was read, did not come again.
    pub(crate) fn reach(&self, wal_end: Lsn) -> Result<(), Divergence> {
        match self.last.get(self.next) {
            Some((lsn, _)) if *lsn < wal_end => Err(Divergence::Missing(*lsn)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether transactions that were read must still come again. Until then nothing is certain of those before them.
    #[must_use]
    pub(crate) fn is_awaiting(&self) -> bool {
        self.next < self.last.len()
    }

    /// A transaction begins that was not read before.
    ///
    /// # Errors
    /// When one before it, which was read, did not come again.
    pub(crate) fn add(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Divergence> {
        if let Some((lsn, _)) = self.last.get(self.next) {
            return Err(Divergence::Missing(*lsn));
        }
        if let Some(commit_time) = identity.commit_time() {
            self.latest = self.latest.max(commit_time);
        }
        if self.last.len() >= REMEMBERED_MAX {
            self.last.pop_front();
        }
        self.last.push_back((commit_lsn, identity));
        self.next = self.last.len();
        Ok(())
    }

    /// The transactions that commit from `lsn` on count as not read: they will be new when they come again.
    pub(crate) fn forget_from(&mut self, lsn: Lsn) {
        self.last.truncate(self.last.partition_point(|(commit_lsn, _)| *commit_lsn < lsn));
        self.next = self.next.min(self.last.len());
    }

    /// Others have read on. What they have read committed before `now`, by the server's clock.
    pub(crate) fn pass_on(&mut self, now: PgTimestamp) {
        *self = Self::new(self.latest.max(now));
    }

    /// Nothing that was read committed later than this.
    #[cfg(test)]
    const fn latest(&self) -> PgTimestamp {
        self.latest
    }
}

/// How much later, in whole seconds.
const fn seconds(later: PgTimestamp, earlier: PgTimestamp) -> i64 {
    later.0.saturating_sub(earlier.0) / 1_000_000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: PgTimestamp = PgTimestamp(1_000);

    fn transaction(xid: u32, time: i64) -> Identity {
        Identity::Transaction { xid: Xid(xid), commit_time: PgTimestamp(time) }
    }

    /// Read at 10, 20 and 30; the clock was set back at 30.
    fn history() -> History {
        let mut history = History::new(START);
        for (lsn, identity) in read() {
            history.add(lsn, identity).unwrap();
        }
        history
    }

    fn read() -> [(Lsn, Identity); 3] {
        let identities = [transaction(1, 2_000), Identity::Message(7), transaction(2, 1_500)];
        [10, 20, 30].map(Lsn::new).into_iter().zip(identities).collect::<Vec<_>>().try_into().unwrap()
    }

    #[test]
    fn what_was_read_comes_again_from_any_place_on() {
        for from in [0, 10, 11, 21, 31] {
            let mut history = history();
            history.resume(Lsn::new(from));
            for (lsn, identity) in read().into_iter().filter(|(lsn, _)| lsn.get() >= from) {
                assert!(history.is_awaiting());
                assert_eq!(history.reach(lsn), Ok(()));
                assert_eq!(history.meet_again(lsn, identity), Ok(true), "from {from}");
            }
            assert!(!history.is_awaiting());
            assert_eq!(history.add(Lsn::new(40), transaction(3, 3_000)), Ok(()), "from {from}");
            assert_eq!(history.latest(), PgTimestamp(3_000));
        }
    }

    #[test]
    fn another_history_is_told_by_what_comes_instead() {
        let later = |commit_lsn, time| Divergence::Later {
            commit_lsn: Lsn::new(commit_lsn),
            commit_time: PgTimestamp(time),
            latest: PgTimestamp(2_000),
        };
        let cases: [(u64, u64, Identity, Result<bool, Divergence>); 9] = [
            // Before what is remembered one by one, the time alone tells.
            (5, 5, transaction(9, 2_000), Ok(true)),
            (5, 5, transaction(9, 2_001), Err(later(5, 2_001))),
            (5, 5, Identity::Message(9), Ok(true)),
            // Then each must be the one that was read, even by a clock that was set back.
            (10, 10, transaction(2, 2_000), Err(Divergence::Other(Lsn::new(10)))),
            (10, 10, transaction(1, 1_999), Err(Divergence::Other(Lsn::new(10)))),
            (11, 20, Identity::Message(8), Err(Divergence::Other(Lsn::new(20)))),
            (11, 15, transaction(1, 1_700), Err(Divergence::Other(Lsn::new(15)))),
            (11, 25, transaction(1, 1_700), Err(Divergence::Missing(Lsn::new(20)))),
            (31, 35, Identity::Message(1), Err(Divergence::Other(Lsn::new(35)))),
        ];
        for (from, at, identity, expected) in cases {
            let mut history = history();
            history.resume(Lsn::new(from));
            assert_eq!(history.meet_again(Lsn::new(at), identity), expected, "{at} from {from}");
        }
        let mut history = history();
        history.resume(Lsn::new(11));
        let missing = Err(Divergence::Missing(Lsn::new(20)));
        assert_eq!(history.add(Lsn::new(50), transaction(3, 3_000)), missing);
        assert_eq!(history.reach(Lsn::new(21)), missing);
        assert_eq!(history.reach(Lsn::new(20)), Ok(()));
    }

    #[test]
    fn the_time_of_the_start_bounds_what_others_have_read() {
        let mut history = History::new(START);
        history.resume(Lsn::new(5));
        assert_eq!(history.meet_again(Lsn::new(7), transaction(1, START.0)), Ok(true));
        assert_eq!(history.meet_again(Lsn::new(7), Identity::Message(1)), Ok(false), "it says nothing");
        assert!(history.meet_again(Lsn::new(8), transaction(2, START.0 + 1)).is_err());
        history.pass_on(PgTimestamp(START.0 + 5));
        assert_eq!(history.meet_again(Lsn::new(8), transaction(2, START.0 + 1)), Ok(true));
        history.pass_on(START);
        assert_eq!(history.latest(), PgTimestamp(START.0 + 5), "it does not go back");
    }

    #[test]
    fn transactions_without_end_are_not_remembered_one_by_one() {
        let mut history = History::new(START);
        let count = u32::try_from(REMEMBERED_MAX).unwrap() + 1;
        for number in 0..count {
            history.add(Lsn::new(u64::from(number)), transaction(number, i64::from(number))).unwrap();
        }
        assert_eq!(history.last.len(), REMEMBERED_MAX);
        assert!(size_of::<(Lsn, Identity)>() <= 32);
        history.resume(Lsn::ZERO);
        assert_eq!(history.meet_again(Lsn::ZERO, transaction(7, 0)), Ok(true));
        assert_eq!(history.meet_again(Lsn::new(1), transaction(1, 1)), Ok(true));
        assert!(history.meet_again(Lsn::new(2), transaction(1, 2)).is_err());
    }

    proptest! {
        /// Clocks that jump, breaks anywhere, a slot that goes back anywhere: the same history is never refused.
        #[test]
        fn the_same_history_is_never_refused(
            times in prop::collection::vec(0..50i64, 1..60),
            breaks in prop::collection::vec((0usize..60, 0usize..60, 0usize..60), 0..6),
        ) {
            let stream: Vec<_> = (1u64..).map(|n| Lsn::new(10 * n)).zip(1u32..).zip(times)
                .map(|((lsn, xid), time)| (lsn, transaction(xid, time)))
                .collect();
            let mut history = History::new(PgTimestamp(0));
            let mut acknowledged = Lsn::ZERO;
            for (from, read, frontier) in breaks {
                // From a place that is acknowledged, on to any place, of which not everything is acknowledged.
                let begin = stream[from.min(stream.len() - 1)].0.min(acknowledged);
                history.resume(begin);
                let mut received = begin;
                for (lsn, identity) in stream.iter().filter(|(lsn, _)| *lsn >= begin).take(read) {
                    match *lsn < acknowledged {
                        true => prop_assert_eq!(history.meet_again(*lsn, *identity), Ok(true)),
                        false => prop_assert_eq!(history.add(*lsn, *identity), Ok(())),
                    }
                    prop_assert_eq!(history.reach(Lsn::new(lsn.get() + 5)), Ok(()));
                    received = Lsn::new(lsn.get() + 5);
                }
                acknowledged = acknowledged.max(received.min(Lsn::new(10 * frontier as u64 + 5)));
                history.forget_from(acknowledged);
            }
        }

        /// Whatever a copy that is put back writes in the place of what was read: a transaction of it is never taken for one that
        /// was read, if the clock goes on.
        #[test]
        fn a_later_transaction_is_never_taken_for_an_old_one(
            gaps in prop::collection::vec(1u64..20, 1..40),
            from in 0u64..400,
            at in 0u64..400,
        ) {
            let (mut history, mut lsn) = (History::new(PgTimestamp(0)), 0);
            for (number, gap) in gaps.into_iter().enumerate() {
                lsn += gap;
                let number = u32::try_from(number).unwrap();
                history.add(Lsn::new(lsn), transaction(number, i64::from(number))).unwrap();
            }
            history.resume(Lsn::new(from));
            let met = history.meet_again(Lsn::new(at), transaction(1, 1_000));
            let is_later = matches!(met, Err(Divergence::Later { .. }));
            prop_assert!(is_later, "{met:?}");
        }
    }
}
