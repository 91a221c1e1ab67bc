//! Detection of outages in which every event fails.

use std::time::{Duration, Instant};

/// Divisor of the maximum pause, which yields the first pause.
const FIRST_PAUSE: u32 = 10;
/// Maximum number of events tried between two pauses. More than one, since any of them may be one that always fails.
const TRIALS_MAX: u32 = 16;

/// Number of consecutive failed events that may be the beginning of an outage.
const SUSPICIOUS: u32 = 3;
/// Time since the first of those failures during which no event is given up.
const SUSPICIOUS_FOR: Duration = Duration::from_secs(15);

/// Detector of outages, in which every event fails. The cause is then not in the events, and giving them up would move the whole
/// topic to the dead letters. Until one event succeeds, only a few events at a time are tried, with pauses between.
///
/// Only failures that another attempt may resolve count. An event that is invalid itself gives no information about other events.
#[derive(Debug)]
pub(super) struct Guard {
    in_a_row: u32,
    /// Time of the first failure since the last success.
    since: Option<Instant>,
    in_a_row_max: u32,
    pause_max: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// No event is begun before this time. The second value is the length of the pause.
    Tripped(Instant, Duration),
    /// Events are being tried, after a pause.
    Trying(Trial),
}

/// Events that are tried between two pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    begun: u32,
    /// Length of the pause before the trial.
    pause: Duration,
    /// End of the wait for events that have not ended.
    until: Instant,
}

/// Number of events that may be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    Any,
    Trial,
    Nothing,
}

impl Guard {
    pub(super) fn new(in_a_row_max: u32, pause_max: Duration) -> Self {
        Self { in_a_row: 0, since: None, in_a_row_max, pause_max, state: State::Closed }
    }

    /// Reports whether only a few events at a time are tried.
    pub(super) fn is_tripped(&self) -> bool {
        self.state != State::Closed
    }

    /// Closes the guard after an event has succeeded.
    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.since = None;
        self.state = State::Closed;
    }

    /// Counts a failed attempt. `first` marks the first attempt at its event. Returns whether the guard trips by this failure.
    pub(super) fn failed(&mut self, now: Instant, first: bool) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(u32::from(first));
        self.since.get_or_insert(now);
        match self.state {
            State::Closed if self.in_a_row >= self.in_a_row_max => {
                let pause = self.pause_max / FIRST_PAUSE;
                self.state = State::Tripped(now + pause, pause);
                true
            }
            State::Trying(trial) if trial.begun >= TRIALS_MAX => {
                let pause = (trial.pause * 2).min(self.pause_max);
                self.state = State::Tripped(now + pause, pause);
                false
            }
            State::Closed | State::Tripped(..) | State::Trying(_) => false,
        }
    }

    /// Subtracts a trial whose end gives no information about other events. Another event may be tried in its place.
    pub(super) fn ended_otherwise(&mut self) {
        if let State::Trying(trial) = &mut self.state {
            trial.begun = trial.begun.saturating_sub(1);
        }
    }

    /// Counts an event that is begun.
    pub(super) fn begun(&mut self) {
        if let State::Trying(trial) = &mut self.state {
            trial.begun = trial.begun.saturating_add(1);
        }
    }

    /// Reports whether attempts are charged to their events.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Reports whether an event may be given up for its failures. It may not for a while after several events have failed and none
    /// has succeeded: further events then show whether everything fails.
    pub(super) fn may_give_up(&self, now: Instant) -> bool {
        let is_suspicious = self.in_a_row >= SUSPICIOUS.min(self.in_a_row_max);
        let is_recent = self.since.is_some_and(|since| now < since + SUSPICIOUS_FOR);
        self.is_closed() && !(is_suspicious && is_recent)
    }

    pub(super) fn allowance(&mut self, now: Instant) -> Allowance {
        match self.state {
            State::Closed => Allowance::Any,
            State::Tripped(until, _) if now < until => Allowance::Nothing,
            State::Trying(trial) if trial.begun < TRIALS_MAX => Allowance::Trial,
            State::Trying(trial) if now < trial.until => Allowance::Nothing,
            State::Tripped(_, pause) | State::Trying(Trial { pause, .. }) => {
                self.state = State::Trying(Trial { begun: 0, pause, until: now + self.pause_max });
                Allowance::Trial
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        match self.state {
            State::Tripped(until, _) => Some(until),
            State::Trying(trial) => (trial.begun >= TRIALS_MAX).then_some(trial.until),
            State::Closed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(5);

    #[test]
    fn it_trips_when_many_fail_in_a_row_and_closes_when_one_succeeds() {
        let now = Instant::now();
        let mut guard = Guard::new(2, PAUSE);
        assert!(!guard.failed(now, true) && !guard.failed(now, false));
        guard.succeeded();
        assert!(!guard.failed(now, true));
        assert_eq!(guard.allowance(now), Allowance::Any);
        assert!(guard.failed(now, true));
        assert_eq!((guard.allowance(now), guard.is_closed()), (Allowance::Nothing, false));
        let mut later = now;
        for tenths in [1, 2, 4, 8, 10, 10] {
            let pause = PAUSE * tenths / 10;
            assert_eq!(
                (guard.allowance(later), guard.next_wake()),
                (Allowance::Nothing, Some(later + pause))
            );
            later += pause;
            assert_eq!((guard.allowance(later), guard.is_closed()), (Allowance::Trial, false));
            (0..TRIALS_MAX).for_each(|_| guard.begun());
            assert!(!guard.failed(later, false));
        }
        assert_eq!(guard.allowance(later + PAUSE), Allowance::Trial);
        guard.succeeded();
        assert_eq!((guard.allowance(later), guard.is_closed()), (Allowance::Any, true));
    }

    /// Invariant: the events that fail first in an outage are not given up before the guard trips.
    #[test]
    fn while_several_fail_and_none_succeeds_none_is_given_up_for_a_while() {
        let now = Instant::now();
        let mut guard = Guard::new(64, PAUSE);
        for _ in 1..SUSPICIOUS {
            guard.failed(now, true);
            assert!(guard.may_give_up(now));
        }
        guard.failed(now, true);
        assert!(!guard.may_give_up(now) && guard.may_give_up(now + SUSPICIOUS_FOR));
        guard.succeeded();
        assert!(guard.may_give_up(now));
    }

    /// Invariant: an end that is not a counted failure neither trips the guard nor uses up its trials.
    #[test]
    fn a_trial_that_ends_otherwise_makes_room_for_another_one() {
        let now = Instant::now();
        let mut guard = Guard::new(1, PAUSE);
        guard.failed(now, true);
        let later = now + PAUSE;
        for _ in 0..5 {
            for _ in 0..TRIALS_MAX {
                assert_eq!(guard.allowance(later), Allowance::Trial);
                guard.begun();
            }
            assert_eq!(guard.allowance(later), Allowance::Nothing);
            assert_eq!(guard.next_wake(), Some(later + PAUSE), "one that does not end is not waited for");
            (0..TRIALS_MAX).for_each(|_| guard.ended_otherwise());
        }
    }
}
