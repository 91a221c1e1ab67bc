//! Schedule of a lease's heartbeats.

use std::time::{Duration, Instant};

/// Heartbeats within a lease.
const BEATS: u32 = 3;

/// Maximum share of its interval by which a heartbeat is sent earlier, so that leases that begin together do not send together.
const JITTER: f64 = 0.2;

/// Share of the lease that is left when the work is stopped.
const MARGIN: f64 = 0.2;

/// Share of the lease after which a failed heartbeat is sent again.
const AGAIN: f64 = 0.05;

/// Schedule of the heartbeats of a lease, and the time from which the lease counts as lost, by the monotonic clock of this machine.
#[derive(Debug)]
pub struct Heartbeat {
    lease: Duration,
    next: Instant,
    end: Instant,
}

/// Next action of a [`Heartbeat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAction {
    /// Do nothing until this time.
    Wait(Instant),
    /// Send a heartbeat.
    Send,
    /// Stop the work: the lease may end soon, or has ended.
    Lost,
}

impl Heartbeat {
    /// Creates the schedule of a lease that was requested at the time `asked`. The lease begins later, when the store has received the
    /// request. `chance` is a random number from 0 to 1.
    #[must_use]
    pub fn new(asked: Instant, lease: Duration, chance: f64) -> Self {
        let mut heartbeat = Self { lease, next: asked, end: asked };
        heartbeat.extended(asked, chance);
        heartbeat
    }

    /// Returns the next action.
    #[must_use]
    pub fn turn(&self, now: Instant) -> HeartbeatAction {
        if now >= self.end {
            HeartbeatAction::Lost
        } else if now >= self.next {
            HeartbeatAction::Send
        } else {
            HeartbeatAction::Wait(self.next.min(self.end))
        }
    }

    /// Returns the time by which the work must have ended, unless a heartbeat succeeds.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.end
    }

    /// Records that the store has received the heartbeat that was sent at the time `sent`. `chance` is a random number from 0 to 1.
    pub fn extended(&mut self, sent: Instant, chance: f64) {
        self.end = sent + self.lease.mul_f64(1.0 - MARGIN);
        self.next = sent + (self.lease / BEATS).mul_f64(1.0 - JITTER * chance);
    }

    /// Records that a heartbeat failed: the store may have received it or not.
    pub fn failed(&mut self, now: Instant) {
        self.next = now + self.lease.mul_f64(AGAIN);
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    proptest! {
        /// Checks that for any answers of the store the work is stopped before the lease can have ended there, and not while heartbeats
        /// succeed.
        #[test]
        fn the_work_stops_before_the_lease_ends(
            steps in vec((0u64..9000, 0u64..4000, any::<bool>(), 0.0..1.0f64), 1..60),
        ) {
            let mut now = Instant::now();
            let mut heartbeat = Heartbeat::new(now, LEASE, 0.5);
            let mut held_until = now + LEASE;
            for (late, trip, arrives, chance) in steps {
                match heartbeat.turn(now) {
                    HeartbeatAction::Wait(until) => {
                        prop_assert!(now < until && until <= heartbeat.end());
                        now = until + Duration::from_millis(late);
                    }
                    HeartbeatAction::Send => {
                        prop_assert!(now < held_until);
                        let sent = now;
                        now += Duration::from_millis(trip);
                        if arrives {
                            // The store received the heartbeat at some time in between.
                            held_until = sent + LEASE;
                            heartbeat.extended(sent, chance);
                        } else {
                            heartbeat.failed(now);
                        }
                    }
                    HeartbeatAction::Lost => {
                        prop_assert!(heartbeat.end() < held_until);
                        prop_assert!(now >= heartbeat.end());
                        return Ok(());
                    }
                }
                prop_assert!(heartbeat.end() + LEASE.mul_f64(MARGIN / 2.0) < held_until);
            }
        }
    }

    #[test]
    fn two_signs_of_life_may_fail() {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(start, LEASE, 0.0);
        let mut sent = 0;
        let mut now = start;
        loop {
            match heartbeat.turn(now) {
                HeartbeatAction::Wait(until) => now = until,
                HeartbeatAction::Send => {
                    sent += 1;
                    heartbeat.failed(now);
                }
                HeartbeatAction::Lost => break,
            }
        }
        assert!(sent >= 3, "{sent}");
        assert_eq!(now - start, LEASE.mul_f64(0.8));
    }
}
