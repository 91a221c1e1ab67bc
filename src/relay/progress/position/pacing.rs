//! The schedule of positions, and the limit that the stored one puts on the confirmed one.

use std::time::{Duration, Instant};

use crate::signal::StoredCheckpoint;
use crate::wal::{Lsn, PgTimestamp};

/// Shortest interval between two writes of a position.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait at the end of a session for its last position. Without it the slot stays where it was
/// confirmed before, and the next start sends what lies between again.
const LAST_PATIENCE: Duration = Duration::from_secs(5);

/// A position that must be written now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) struct DuePosition {
    pub(in crate::relay) lsn: Lsn,
    /// Commit time of the last transaction with records before it, if there was one.
    pub(in crate::relay) committed: Option<PgTimestamp>,
    /// Progress of incremental snapshots there, if signals are enabled.
    pub(in crate::relay) snapshots: Option<StoredCheckpoint>,
}

/// Schedule of a session's positions, and the limit of what may be confirmed.
#[derive(Debug)]
pub(in crate::relay) struct Pacing {
    /// False when no position is stored: everything may be confirmed.
    on: bool,
    /// The last position of this session that Kafka has.
    stored: Option<Lsn>,
    /// The one that is on its way.
    sent: Option<Lsn>,
    /// Earliest time of the next write; `None` is at once.
    due: Option<Instant>,
    /// The first write is delayed until then.
    is_delayed: bool,
    /// Since when something later waits: since the last one was stored, or since there was something to write.
    waits_since: Option<Instant>,
    /// True if it must be written even if Kafka has it: the record has other changes.
    again: bool,
    /// The session is ending, and waits so long for its last position.
    ending_until: Option<Instant>,
    patience: Duration,
}

impl Pacing {
    /// Creates one that stores no position.
    pub(in crate::relay) const fn off() -> Self {
        let (stored, sent, due, waits_since, ending_until) = (None, None, None, None, None);
        let (again, is_delayed, patience) = (false, false, Duration::ZERO);
        Self { on: false, stored, sent, due, is_delayed, waits_since, again, ending_until, patience }
    }

    /// Creates one for a session that has `shutdown_timeout` for everything at its end.
    pub(in crate::relay) fn new(shutdown_timeout: Duration) -> Self {
        Self { on: true, patience: LAST_PATIENCE.min(shutdown_timeout / 2), ..Self::off() }
    }

    /// Delays the first write until then at most, see [`Self::release`]. The end of a session does not end the delay.
    pub(in crate::relay) const fn delay(&mut self, until: Instant) {
        (self.due, self.is_delayed) = (Some(until), true);
    }

    /// Ends the delay.
    pub(in crate::relay) const fn release(&mut self) {
        if self.is_delayed {
            (self.due, self.is_delayed) = (None, false);
        }
    }

    /// Returns whether the frontier must be written now; it then counts as sent. Only one write is in flight,
    /// and the last one, once everything is acknowledged, does not wait for the next second.
    pub(in crate::relay) fn turn(&mut self, frontier: Lsn, last: bool, now: Instant) -> bool {
        if last && self.ending_until.is_none() {
            self.ending_until = now.checked_add(self.patience);
            self.due = self.due.filter(|_| self.is_delayed);
        }
        match self.is_stored(frontier) {
            true => self.waits_since = None,
            false => drop(self.waits_since.get_or_insert(now)),
        }
        let is_due = self.due.is_none_or(|due| now >= due);
        if !is_due || self.sent.is_some() || self.is_written(frontier) {
            return false;
        }
        (self.again, self.is_delayed) = (false, false);
        self.sent = Some(frontier);
        self.due = now.checked_add(INTERVAL);
        true
    }

    /// Records that Kafka has what was sent.
    pub(in crate::relay) const fn acknowledged(&mut self) {
        if let Some(lsn) = self.sent.take() {
            (self.stored, self.waits_since) = (Some(lsn), None);
        }
    }

    /// Records that what was sent may be in Kafka or not.
    pub(in crate::relay) const fn failed(&mut self) {
        (self.sent, self.again) = (None, true);
    }

    /// Requests another write, because what is written with the position has changed.
    pub(in crate::relay) const fn write_again(&mut self) {
        self.again = true;
    }

    /// Stops storing positions.
    pub(in crate::relay) const fn switch_off(&mut self) {
        self.on = false;
    }

    /// Returns the part of the frontier that may be confirmed.
    pub(in crate::relay) fn confirmable(&self, frontier: Lsn) -> Lsn {
        if self.on { self.stored.unwrap_or_default().min(frontier) } else { frontier }
    }

    /// Returns whether Kafka has this position, or need not have it.
    pub(in crate::relay) fn is_stored(&self, frontier: Lsn) -> bool {
        !self.on || self.stored.is_some_and(|stored| stored >= frontier)
    }

    /// Returns whether Kafka has it and what is written with it, or need not have it.
    pub(in crate::relay) fn is_written(&self, frontier: Lsn) -> bool {
        !self.on || self.is_stored(frontier) && !self.again && self.sent.is_none()
    }

    /// Returns whether a session that ends need not wait for this position any longer.
    pub(in crate::relay) fn is_settled(&self, frontier: Lsn, now: Instant) -> bool {
        self.is_written(frontier) || self.ending_until.is_some_and(|until| now >= until)
    }

    /// Returns the time of the next action if nothing else happens. It is never in the past, because a wait
    /// until then would not wait.
    pub(in crate::relay) fn wake_at(&self, frontier: Lsn, now: Instant) -> Option<Instant> {
        if self.is_written(frontier) {
            return None;
        }
        let due = self.due.filter(|_| self.sent.is_none());
        match (due, self.ending_until.filter(|until| *until > now)) {
            (Some(due), Some(until)) => Some(due.min(until)),
            (due, until) => due.or(until),
        }
    }

    /// Returns whether a position waits for the next second only: it is not on its way, and nothing has failed.
    #[cfg(test)]
    pub(in crate::relay) fn rests(&self, frontier: Lsn) -> bool {
        !self.is_stored(frontier) && self.sent.is_none() && !self.is_delayed && !self.again
    }

    /// Returns the time since which a later position waits than the one that Kafka has.
    pub(in crate::relay) const fn waits_since(&self) -> Option<Instant> {
        if self.on { self.waits_since } else { None }
    }

    /// Returns the last position that Kafka has; zero when none is stored.
    pub(in crate::relay) fn stored(&self) -> Lsn {
        self.stored.filter(|_| self.on).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever moves, is answered or fails, and whenever.
        #[test]
        fn nothing_is_confirmable_that_is_not_in_kafka_and_a_second_lies_between_two_writes(
            steps in prop::collection::vec((0u64..50, 0u64..1500, 0u8..4), 0..60),
        ) {
            let mut now = Instant::now();
            let mut pacing = Pacing::new(Duration::from_secs(25));
            let (mut frontier, mut in_kafka, mut on_its_way, mut written) = (Lsn::ZERO, Lsn::ZERO, None, None);
            for (forward, millis, answer) in steps {
                now += Duration::from_millis(millis);
                frontier = Lsn::new(frontier.get() + forward);
                match (answer, on_its_way.take()) {
                    (0, Some(lsn)) => { pacing.acknowledged(); in_kafka = lsn; }
                    (1, Some(_)) => pacing.failed(),
                    (_, before) => on_its_way = before,
                }
                if pacing.turn(frontier, false, now) {
                    prop_assert!(on_its_way.is_none());
                    prop_assert!(written.is_none_or(|at| now - at >= INTERVAL));
                    (on_its_way, written) = (Some(frontier), Some(now));
                }
                prop_assert!(pacing.confirmable(frontier) <= in_kafka);
            }
        }
    }

    #[test]
    fn what_has_changed_beside_the_position_is_written_with_it_again() {
        let start = Instant::now();
        let (mut pacing, later) = (Pacing::new(Duration::from_secs(25)), start + INTERVAL);
        let at = Lsn::new(10);
        assert!(pacing.turn(at, false, start));
        pacing.acknowledged();
        assert!(pacing.is_settled(at, start));
        pacing.write_again();
        assert!(!pacing.is_settled(at, start) && pacing.confirmable(at) == at);
        assert_eq!(pacing.wake_at(at, start), Some(later));
        assert!(!pacing.turn(at, false, start) && pacing.turn(at, false, later));
        assert!(!pacing.is_settled(at, later), "it is on its way");
        pacing.failed();
        assert!(pacing.turn(at, false, later + INTERVAL));
        pacing.acknowledged();
        assert!(pacing.is_settled(at, later));
        assert!(!pacing.turn(at, false, later + 2 * INTERVAL), "once");
    }

    #[test]
    fn the_first_position_is_delayed_until_it_is_released() {
        let (start, at) = (Instant::now(), Lsn::new(10));
        let (until, patience) = (start + 5 * INTERVAL, Duration::from_secs(25));
        let delayed = || {
            let mut pacing = Pacing::new(patience);
            pacing.delay(until);
            assert!(!pacing.turn(at, false, start) && pacing.confirmable(at) == Lsn::ZERO);
            assert_eq!(pacing.wake_at(at, start), Some(until));
            pacing
        };
        assert!(delayed().turn(at, false, until));
        let mut ending = delayed();
        assert!(!ending.turn(at, true, start) && !ending.is_settled(at, start));
        for mut pacing in [ending, delayed()] {
            pacing.release();
            assert!(pacing.turn(at, false, start));
            pacing.release();
            pacing.acknowledged();
            assert!(!pacing.turn(Lsn::new(20), false, start), "a second lies between two writes");
        }
    }

    #[test]
    fn a_position_is_written_at_once_then_each_second_and_at_the_end() {
        let start = Instant::now();
        let (mut pacing, later) = (Pacing::new(Duration::from_secs(25)), start + INTERVAL);
        let (a, b, c) = (Lsn::new(10), Lsn::new(20), Lsn::new(30));
        assert!(pacing.turn(a, false, start), "the first is written whatever it is");
        assert!(!pacing.turn(b, false, later), "one at a time");
        assert_eq!((pacing.confirmable(b), pacing.wake_at(b, later)), (Lsn::ZERO, None));
        pacing.acknowledged();
        assert_eq!((pacing.confirmable(b), pacing.wake_at(b, start)), (a, Some(later)));
        assert!(!pacing.turn(a, false, later), "nothing has changed");
        assert!(!pacing.turn(b, false, start) && pacing.turn(b, false, later));
        assert_eq!(
            pacing.waits_since(),
            Some(start),
            "since the last turn, a moment after the last one was stored"
        );
        pacing.failed();
        assert!(pacing.confirmable(b) == a && !pacing.is_stored(b) && !pacing.turn(c, false, later));
        assert!(pacing.turn(c, true, later), "the last does not wait");
        let over = later + LAST_PATIENCE;
        assert!(!pacing.is_settled(c, later) && pacing.is_settled(c, over));
        assert_eq!((pacing.wake_at(c, later), pacing.wake_at(c, over)), (Some(over), None));
        pacing.acknowledged();
        assert!(pacing.is_settled(c, later) && pacing.stored() == c);
        assert!(!pacing.turn(c, true, over) && pacing.waits_since().is_none());
    }

    #[test]
    fn without_a_position_everything_may_be_confirmed() {
        let (now, lsn) = (Instant::now(), Lsn::new(10));
        let mut switched_off = Pacing::new(Duration::ZERO);
        switched_off.switch_off();
        for mut pacing in [Pacing::off(), switched_off] {
            assert!(!pacing.turn(lsn, true, now) && pacing.is_settled(lsn, now));
            assert_eq!(
                (pacing.confirmable(lsn), pacing.wake_at(lsn, now), pacing.stored()),
                (lsn, None, Lsn::ZERO)
            );
        }
    }
}
