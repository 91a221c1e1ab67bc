use std::time::Duration;

/// A wait is made longer by up to this share, so that what failed together does not come back together.
const JITTER: f64 = 0.2;

/// The waits before each further attempt. After the last one the event is given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    waits: Vec<Duration>,
}

impl Default for Retry {
    /// 200 ms, 1 s, 5 s.
    fn default() -> Self {
        Self::new([200, 1000, 5000].map(Duration::from_millis))
    }
}

impl Retry {
    /// These waits.
    #[must_use]
    pub fn new(waits: impl IntoIterator<Item = Duration>) -> Self {
        Self { waits: waits.into_iter().collect() }
    }

    /// How long to wait after so many failed attempts; `None` when that was the last. `chance` is from 0 to 1.
    pub(super) fn wait(&self, failed: u32, chance: f64) -> Option<Duration> {
        let index = usize::try_from(failed.checked_sub(1)?).ok()?;
        self.waits.get(index).map(|wait| wait.mul_f64(1.0 + JITTER * chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_waits_as_told_and_the_last_one_is_the_end() {
        let retry = Retry::new([100, 300].map(Duration::from_millis));
        assert_eq!(retry.wait(1, 0.0), Some(Duration::from_millis(100)));
        assert_eq!(retry.wait(2, 0.0), Some(Duration::from_millis(300)));
        assert_eq!(retry.wait(2, 1.0), Some(Duration::from_millis(360)));
        assert_eq!(retry.wait(3, 0.0), None);
        assert_eq!(Retry::new([]).wait(1, 0.0), None);
    }
}
