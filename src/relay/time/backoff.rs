//! Exponential back-off.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Exponential back-off with full jitter: 0.1 s doubling up to 30 s, each wait between half and all of it.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::relay) struct Backoff {
    attempts: u32,
}

impl Backoff {
    /// Returns the pause before the next attempt, which is counted; `jitter` is in 0..1.
    pub(in crate::relay) fn next(&mut self, jitter: f64) -> Duration {
        let pause = self.pause(jitter);
        *self = self.counted();
        pause
    }

    /// Returns the pause before the next attempt; `jitter` is in 0..1.
    pub(in crate::relay) fn pause(self, jitter: f64) -> Duration {
        let ceiling = FIRST.saturating_mul(2u32.saturating_pow(self.attempts)).min(LONGEST);
        ceiling.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }

    /// Returns the state after one more attempt.
    pub(in crate::relay) const fn counted(self) -> Self {
        Self { attempts: self.attempts.saturating_add(1) }
    }

    /// Attempts since the last success.
    pub(in crate::relay) const fn attempts(self) -> u32 {
        self.attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_never_vanish() {
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..40).map(|_| backoff.next(1.0)).collect();
        assert_eq!(waits[0], Duration::from_millis(100));
        assert_eq!(waits[3], Duration::from_millis(800));
        assert_eq!(waits[39], LONGEST);
        assert_eq!(Backoff::default().next(0.0), Duration::from_millis(50));
    }
}
