//! Transactions that were read, for comparison with a server.

use std::collections::VecDeque;

use crate::pgoutput::Begin;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Number of recent transactions that are remembered individually, 32 bytes each. Of earlier ones only the latest commit time is
/// known.
const REMEMBERED_MAX: usize = 4096;

/// Record of the transactions that were read, used to detect that a server does not have them any more.
///
/// A restored copy of a server's data has the same system identifier and timeline, but writes other transactions at the same
/// positions. These commit later than everything that was read before, and the transactions that were read are missing. An LSN
/// alone detects neither.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Upper bound of the commit times of all transactions that were read.
    latest: PgTimestamp,
    /// Most recent transactions that were read, without a gap.
    last: VecDeque<(Lsn, Identity)>,
    /// Index of the transaction that must arrive next.
    next: usize,
}

/// Identity of a transaction among all others with the same LSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identity {
    /// Identity from `Begin`.
    Transaction {
        /// Transaction id.
        xid: Xid,
        /// Commit time by the server's clock.
        commit_time: PgTimestamp,
    },
    /// Digest of a logical message outside a transaction, which has neither an id nor a commit time.
    Message(u64),
}

/// Difference between a server's transactions and those that were read from it before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// A transaction at an earlier position than what was read, with a later commit time than all of it.
    #[error(
        "the transaction at {commit_lsn} lies before what was read, and committed {} s later than all of that",
        seconds(*.commit_time, *.latest)
    )]
    Later {
        /// Commit position.
        commit_lsn: Lsn,
        /// Commit time.
        commit_time: PgTimestamp,
        /// Upper bound of the commit times of all transactions that were read.
        latest: PgTimestamp,
    },
    /// A transaction at a position where no transaction or a different one was read.
    #[error("the transaction at {0} is not the one that was read there")]
    Other(Lsn),
    /// A transaction that was read and is missing now.
    #[error("the transaction that was read at {0} is not there any more")]
    Missing(Lsn),
}

impl From<&Begin> for Identity {
    fn from(begin: &Begin) -> Self {
        Self::Transaction { xid: begin.xid, commit_time: begin.commit_time }
    }
}

impl Identity {
    /// Returns the commit time, if it is known.
    #[must_use]
    pub const fn commit_time(self) -> Option<PgTimestamp> {
        match self {
            Self::Transaction { commit_time, .. } => Some(commit_time),
            Self::Message(_) => None,
        }
    }
}

impl History {
    /// Returns an empty history. Other clients' transactions count as committed before `now`, by the server's clock.
    #[must_use]
    pub const fn new(now: PgTimestamp) -> Self {
        Self { latest: now, last: VecDeque::new(), next: 0 }
    }

    /// Starts a stream at `from`: transactions that were read and commit at `from` or later must arrive again.
    pub fn resume(&mut self, from: Lsn) {
        self.next = self.last.partition_point(|(lsn, _)| *lsn < from);
    }

    /// Compares a transaction before the end of what was read. Returns false if it is unknown whether it was read: for a message,
    /// which has no commit time, when no transaction is remembered.
    ///
    /// # Errors
    /// When it is not the transaction that was read.
    pub fn meet_again(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<bool, Divergence> {
        let latest = self.latest;
        if let Some(commit_time) = identity.commit_time().filter(|time| *time > latest) {
            return Err(Divergence::Later { commit_lsn, commit_time, latest });
        }
        match self.last.get(self.next) {
            Some((lsn, _)) if *lsn < commit_lsn => return Err(Divergence::Missing(*lsn)),
            Some(known) if *known == (commit_lsn, identity) => self.next = self.next.saturating_add(1),
            // It precedes the transactions that are remembered individually.
            Some((lsn, _)) if *lsn > commit_lsn && self.next == 0 => {}
            None if self.last.is_empty() => return Ok(identity.commit_time().is_some()),
            Some(_) | None => return Err(Divergence::Other(commit_lsn)),
        }
        Ok(true)
    }

    /// Checks that everything before `wal_end` has arrived.
    ///
    /// # Errors
    /// When a transaction before `wal_end` that was read has not arrived again.
    pub fn reach(&self, wal_end: Lsn) -> Result<(), Divergence> {
        match self.last.get(self.next) {
            Some((lsn, _)) if *lsn < wal_end => Err(Divergence::Missing(*lsn)),
            Some(_) | None => Ok(()),
        }
    }

    /// Reports whether transactions that were read must still arrive again. Until then those before them are not verified.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        self.next < self.last.len()
    }

    /// Adds a transaction that was not read before.
    ///
    /// # Errors
    /// When an earlier transaction that was read has not arrived again.
    pub fn add(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Divergence> {
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

    /// Removes the transactions that commit at `lsn` or later: they count as new when they arrive again.
    pub fn forget_from(&mut self, lsn: Lsn) {
        self.last.truncate(self.last.partition_point(|(commit_lsn, _)| *commit_lsn < lsn));
        self.next = self.next.min(self.last.len());
    }

    /// Replaces the history after other clients have read on. Their transactions count as committed before `now`, by the server's
    /// clock.
    pub fn pass_on(&mut self, now: PgTimestamp) {
        *self = Self::new(self.latest.max(now));
    }

    /// Returns the upper bound of the commit times of all transactions that were read.
    #[cfg(test)]
    const fn latest(&self) -> PgTimestamp {
        self.latest
    }
}

/// Returns the difference in whole seconds.
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

    /// Returns a history of transactions at 10, 20 and 30; the clock was set back at 30.
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
    fn another_history_is_recognized_by_what_comes_instead() {
        let later = |commit_lsn, time| Divergence::Later {
            commit_lsn: Lsn::new(commit_lsn),
            commit_time: PgTimestamp(time),
            latest: PgTimestamp(2_000),
        };
        let cases: [(u64, u64, Identity, Result<bool, Divergence>); 9] = [
            // Before the transactions that are remembered individually, only the time is compared.
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

        /// Holds for any transactions that a restored copy writes at the positions of those that were read: none is accepted as
        /// one that was read, if the clock advances.
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
