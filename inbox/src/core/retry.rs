use std::time::Duration;

/// A wait is made longer by up to this share, so that what failed together does not come back together.
const JITTER: f64 = 0.2;

/// The waits of suspects when nothing is parked otherwise.
const SUSPECT_WAITS: [Duration; 3] =
    [Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(1800)];

/// The waits before each further attempt. After the last one the event is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    waits: Vec<Duration>,
    parked: Vec<Duration>,
}

/// The wait before another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// In memory.
    Memory(Duration),
    /// In the table.
    Parked(Duration),
}

impl Default for Retry {
    /// 200 ms, 1 s, 5 s in memory; then 1, 5 and 30 minutes in the table.
    fn default() -> Self {
        Self::new([200, 1000, 5000].map(Duration::from_millis)).park([60, 300, 1800].map(Duration::from_secs))
    }
}

impl Retry {
    /// These waits. The event and its key wait in memory, and hold back the offset of their partition: seconds, not minutes.
    #[must_use]
    pub fn new(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect(), parked: Vec::new() }
    }

    /// After those the event waits in a table, with the later events of its key behind it, for each of these times.
    #[must_use]
    pub fn park(mut self, waits: impl IntoIterator<Item = Duration>) -> Self {
        self.parked = waits.into_iter().collect();
        self
    }

    /// Returns how long an event waits in whose middle the process has ended too often: `index` counts the waits before. `None`
    /// after the last one.
    pub(super) fn suspect_wait(&self, index: u32) -> Option<Duration> {
        let index = usize::try_from(index).ok()?;
        let waits = if self.parked.is_empty() { &SUSPECT_WAITS[..] } else { &self.parked };
        waits.get(index).copied()
    }

    /// Returns how long an event waits in the table while everything fails.
    pub(super) fn first_parked(&self) -> Option<Duration> {
        self.parked.first().copied()
    }

    /// How long to wait after so many failed attempts; `None` when that was the last. `chance` is from 0 to 1.
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
    fn each_failure_waits_as_told_and_the_last_one_is_the_end() {
        let retry = Retry::new([100, 300].map(Duration::from_millis)).park([Duration::from_secs(60)]);
        assert_eq!(retry.wait(1, 0.0), Some(Wait::Memory(Duration::from_millis(100))));
        assert_eq!(retry.wait(2, 0.0), Some(Wait::Memory(Duration::from_millis(300))));
        assert_eq!(retry.wait(2, 1.0), Some(Wait::Memory(Duration::from_millis(360))));
        assert_eq!(retry.wait(3, 0.5), Some(Wait::Parked(Duration::from_secs(66))));
        assert_eq!(retry.wait(4, 0.0), None);
        assert_eq!(Retry::new([]).wait(1, 0.0), None);
    }
}
