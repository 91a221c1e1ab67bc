//! Waits before further attempts.

use std::time::Duration;

/// Maximum share by which a wait is prolonged, so that events that failed together are not retried together.
const JITTER: f64 = 0.2;

/// Waits of events that may crash the process, if the options define no waits in the table.
const SUSPECT_WAITS: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1800)];

/// Waits before each further attempt. After the last one the event is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    waits: Vec<Duration>,
    parked: Vec<Duration>,
}

/// Wait before another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Wait in memory.
    Memory(Duration),
    /// Wait in the table.
    Parked(Duration),
}

impl Default for Retry {
    /// Returns waits of 200 ms, 1 s and 5 s in memory, then of 1, 5 and 30 minutes in the table.
    fn default() -> Self {
        Self::new([200, 1000, 5000].map(Duration::from_millis)).park([60, 300, 1800].map(Duration::from_secs))
    }
}

impl Retry {
    /// Creates a policy with these waits in memory. The event and the later events of its key stay in memory, and hold back the
    /// offset of their partition: use seconds, not minutes.
    #[must_use]
    pub fn new(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect(), parked: Vec::new() }
    }

    /// Sets the waits in the table, which follow those in memory. The later events of the key wait in the table too.
    #[must_use]
    pub fn park(mut self, waits: impl IntoIterator<Item = Duration>) -> Self {
        self.parked = waits.into_iter().collect();
        self
    }

    /// Returns the wait of an event at which the process has crashed too often. `index` is the number of its earlier waits. `None`
    /// after the last wait.
    pub(super) fn suspect_wait(&self, index: u32) -> Option<Duration> {
        let index = usize::try_from(index).ok()?;
        let waits = if self.parked.is_empty() { &SUSPECT_WAITS[..] } else { &self.parked };
        waits.get(index).copied()
    }

    /// Returns the wait of an event in the table while everything fails. `None` if the options define no waits in the table.
    pub(super) fn first_parked(&self) -> Option<Duration> {
        self.parked.first().copied()
    }

    /// Returns the wait after `failed` failed attempts, or `None` if the last one has failed. `chance` is the random number of the
    /// jitter, from 0 to 1.
    pub(super) fn wait(&self, failed: u32, chance: f64) -> Option<Wait> {
        let index = usize::try_from(failed.checked_sub(1)?).ok()?;
        let longer = |wait: &Duration| wait.mul_f64(1.0 + JITTER * chance);
        if let Some(wait) = self.waits.get(index) {
            return Some(Wait::Memory(longer(wait)));
        }
        self.parked.get(index - self.waits.len()).map(longer).map(Wait::Parked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_as_configured_and_the_last_one_is_the_end() {
        let retry = Retry::new([100, 300].map(Duration::from_millis)).park([Duration::from_secs(60)]);
        assert_eq!(retry.wait(1, 0.0), Some(Wait::Memory(Duration::from_millis(100))));
        assert_eq!(retry.wait(2, 0.0), Some(Wait::Memory(Duration::from_millis(300))));
        assert_eq!(retry.wait(2, 1.0), Some(Wait::Memory(Duration::from_millis(360))));
        assert_eq!(retry.wait(3, 0.5), Some(Wait::Parked(Duration::from_secs(66))));
        assert_eq!(retry.wait(4, 0.0), None);
        assert_eq!(Retry::new([]).wait(1, 0.0), None);
    }
}
