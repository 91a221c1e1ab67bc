use std::time::{Duration, Instant};

/// The first pause is this part of the longest one.
const FIRST_PAUSE: u32 = 10;
/// The most events that are tried between two pauses. Several, since any of them may be one that always fails.
const TRIALS_MAX: u32 = 16;

/// This many events that fail in a row may be the beginning of an outage.
const SUSPICIOUS: u32 = 3;
/// How long no event is given up for that.
const SUSPICIOUS_FOR: Duration = Duration::from_secs(15);

/// Notices that everything fails. Then the cause is not in the events, and giving them up would move the topic to the dead
/// letters. From then on a few events at a time are tried, with pauses, until one succeeds.
///
/// Only failures that another attempt may cure count. An event that is wrong by itself says nothing about the others.
#[derive(Debug)]
pub(super) struct Guard {
    in_a_row: u32,
    /// When the first of them failed.
    since: Option<Instant>,
    in_a_row_max: u32,
    pause_max: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Nothing is begun before this time. With the length of the pause.
    Tripped(Instant, Duration),
    /// Events are being tried, after a pause.
    Trying(Trial),
}

/// Events that are tried between two pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trial {
    begun: u32,
    /// The pause before.
    pause: Duration,
    /// Those that have not ended by then are not waited for.
    until: Instant,
}

/// The events that may be begun.
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

    /// Whether a few events at a time are tried.
    pub(super) fn is_tripped(&self) -> bool {
        self.state != State::Closed
    }

    /// Closes the guard: an event succeeded.
    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.since = None;
        self.state = State::Closed;
    }

    /// Counts an attempt that failed, the first one of its event or a further one. Returns whether the guard trips by it.
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

    /// Takes note of an attempt whose end says nothing about the others. Another event may be tried in its place.
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

    /// Returns whether attempts are charged to their events.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Returns whether an event may be given up for its failures. Not when several events have failed and none has succeeded:
    /// more of them will show within a while whether everything fails.
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

    /// Invariant: what is no failure of the kind that counts neither trips the guard nor uses up its trials.
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
