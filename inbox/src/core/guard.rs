use std::time::{Duration, Instant};

/// Notices that everything fails: then the cause is not in the events, and giving them up would empty the topic into the
/// dead letters.
#[derive(Debug)]
pub(super) struct Guard {
    in_a_row: u32,
    in_a_row_max: u32,
    pause: Duration,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// Nothing is begun before this.
    Tripped(Instant),
    /// One is tried.
    Trying,
}

/// How many handlers may be at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Allowance {
    Any,
    One,
    Nothing,
}

impl Guard {
    pub(super) fn new(in_a_row_max: u32, pause: Duration) -> Self {
        Self { in_a_row: 0, in_a_row_max, pause, state: State::Closed }
    }

    /// An event succeeded.
    pub(super) fn succeeded(&mut self) {
        self.in_a_row = 0;
        self.state = State::Closed;
    }

    /// An attempt failed, the first one of its event or a further one. `true` when the guard trips by it.
    pub(super) fn failed(&mut self, now: Instant, first: bool) -> bool {
        self.in_a_row = self.in_a_row.saturating_add(u32::from(first));
        let trips = self.state == State::Closed && self.in_a_row >= self.in_a_row_max;
        if trips || self.state == State::Trying {
            self.state = State::Tripped(now + self.pause);
        }
        trips
    }

    /// Whether an event may be given up.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    pub(super) fn allowance(&mut self, now: Instant) -> Allowance {
        match self.state {
            State::Closed => Allowance::Any,
            State::Tripped(until) if now < until => Allowance::Nothing,
            State::Tripped(_) | State::Trying => {
                self.state = State::Trying;
                Allowance::One
            }
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        match self.state {
            State::Tripped(until) => Some(until),
            State::Closed | State::Trying => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(5);

    #[test]
    fn it_trips_when_so_many_fail_in_a_row_and_closes_when_one_succeeds() {
        let now = Instant::now();
        let mut guard = Guard::new(2, PAUSE);
        assert!(!guard.failed(now, true) && !guard.failed(now, false));
        guard.succeeded();
        assert!(!guard.failed(now, true));
        assert_eq!(guard.allowance(now), Allowance::Any);
        assert!(guard.failed(now, true));
        assert_eq!((guard.allowance(now), guard.is_closed()), (Allowance::Nothing, false));
        let later = now + PAUSE;
        assert_eq!((guard.allowance(later), guard.is_closed()), (Allowance::One, false));
        assert!(!guard.failed(later, false));
        assert_eq!((guard.allowance(later), guard.next_wake()), (Allowance::Nothing, Some(later + PAUSE)));
        assert_eq!(guard.allowance(later + PAUSE), Allowance::One);
        guard.succeeded();
        assert_eq!((guard.allowance(later + PAUSE), guard.is_closed()), (Allowance::Any, true));
    }
}
