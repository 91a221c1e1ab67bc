use std::time::{Duration, Instant};

/// Signs of life within a lease.
const BEATS: u32 = 3;

/// A sign of life comes earlier by up to this share of its interval, so that what began together does not beat together.
const JITTER: f64 = 0.2;

/// So much of the lease is left when the work is told to stop.
const MARGIN: f64 = 0.2;

/// A sign of life that failed is sent again after this share of the lease.
const AGAIN: f64 = 0.05;

/// When to give a sign of life, and when a lease must be taken for lost. By the monotonic clock of this machine.
#[derive(Debug)]
pub struct Heartbeat {
    lease: Duration,
    next: Instant,
    end: Instant,
}

/// Next action of a [`Heartbeat`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeartbeatAction {
    /// Nothing, until then.
    Wait(Instant),
    /// Give a sign of life.
    Send,
    /// The lease may end soon, or is over: stop.
    Lost,
}

impl Heartbeat {
    /// For a lease that was asked for at this time. It began when the store had the question, which was not before.
    #[must_use]
    pub fn new(asked: Instant, lease: Duration, chance: f64) -> Self {
        let mut heartbeat = Self { lease, next: asked, end: asked };
        heartbeat.extended(asked, chance);
        heartbeat
    }

    /// What to do now.
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

    /// When the work must have ended, unless a sign of life arrives.
    #[must_use]
    pub fn end(&self) -> Instant {
        self.end
    }

    /// The store has the sign of life that was sent at this time. `chance` is from 0 to 1.
    pub fn extended(&mut self, sent: Instant, chance: f64) {
        self.end = sent + self.lease.mul_f64(1.0 - MARGIN);
        self.next = sent + (self.lease / BEATS).mul_f64(1.0 - JITTER * chance);
    }

    /// Nobody knows whether the store has it.
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
        /// However the store answers, the work is stopped before the lease can have ended there, and not while signs of
        /// life arrive.
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
                            // The store had it at any time between.
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
