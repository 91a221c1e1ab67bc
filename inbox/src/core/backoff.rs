//! Attempts that are not charged to the event, because PostgreSQL ended them and not the handler.

use std::time::Duration;

/// Base of the wait, which doubles with each repeat.
const FIRST: Duration = Duration::from_millis(10);
/// Maximum wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Reason to repeat an attempt without charging it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncharged {
    /// PostgreSQL aborted the transaction to resolve a deadlock, or could not serialize it.
    Conflict,
    /// The connection broke, and another one can be opened.
    Broken,
}

impl Uncharged {
    /// Returns the maximum number of consecutive repeats of an event. The attempt after them is charged, so that an event whose
    /// statements always end this way is given up eventually.
    pub(super) fn repeats_max(self) -> u32 {
        match self {
            Self::Conflict => 12,
            Self::Broken => 4,
        }
    }

    /// Returns the wait before a repeat, counted from 1. `chance` is a random number from 0 to 1, which separates transactions that
    /// conflicted.
    pub(super) fn wait(repeat: u32, chance: f64) -> Duration {
        let longest = FIRST.saturating_mul(1 << repeat.min(10)).min(LONGEST);
        longest.mul_f64(chance)
    }
}
