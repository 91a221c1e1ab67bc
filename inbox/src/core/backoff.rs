//! Attempts that are not charged to the event: PostgreSQL has ended them, not the handler.

use std::time::Duration;

/// The wait after the first one. It doubles.
const FIRST: Duration = Duration::from_millis(10);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(1);

/// Why an attempt is repeated without being charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Uncharged {
    /// PostgreSQL has chosen its transaction to resolve a deadlock, or could not serialize it.
    Conflict,
    /// The connection has broken, and another one can be opened.
    Broken,
}

impl Uncharged {
    /// The most repeats in a row of an event. After them an attempt is charged: an event whose statements always end so must be
    /// given up some time.
    pub(super) fn repeats_max(self) -> u32 {
        match self {
            Self::Conflict => 12,
            Self::Broken => 4,
        }
    }

    /// Returns the wait before a repeat, from 1. `chance` is from 0 to 1: transactions that met must not meet again.
    pub(super) fn wait(repeat: u32, chance: f64) -> Duration {
        let longest = FIRST.saturating_mul(1 << repeat.min(10)).min(LONGEST);
        longest.mul_f64(chance)
    }
}
