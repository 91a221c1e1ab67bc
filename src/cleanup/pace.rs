//! Load under which cleanup pauses.

use std::time::Duration;

use super::options::CleanupOptions;

/// Load of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Pressure {
    /// Bytes of WAL that the slowest standby has not replayed.
    pub(super) lag_bytes: u64,
    /// The age of the oldest transaction, others' only.
    pub(super) transaction_age: Duration,
}

/// Reasons why nothing is deleted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Busy {
    /// A standby is behind.
    Lag(u64),
    /// A transaction is old.
    Transaction(Duration),
}

impl Pressure {
    /// Returns the reason to wait, if there is one.
    pub(super) fn judge(self, options: &CleanupOptions) -> Option<Busy> {
        if options.lag_bytes_max > 0 && self.lag_bytes > options.lag_bytes_max {
            return Some(Busy::Lag(self.lag_bytes));
        }
        let is_old = self.transaction_age > options.transaction_age_max;
        (is_old && !options.transaction_age_max.is_zero()).then_some(Busy::Transaction(self.transaction_age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_comes_first() {
        let options = CleanupOptions::default();
        let never = CleanupOptions {
            lag_bytes_max: 0,
            transaction_age_max: Duration::ZERO,
            ..CleanupOptions::default()
        };
        let (more, old) = (options.lag_bytes_max + 1, options.transaction_age_max + Duration::from_secs(1));
        for (lag_bytes, transaction_age, expected) in [
            (0, Duration::ZERO, None),
            (options.lag_bytes_max, options.transaction_age_max, None),
            (more, Duration::ZERO, Some(Busy::Lag(more))),
            (0, old, Some(Busy::Transaction(old))),
        ] {
            let pressure = Pressure { lag_bytes, transaction_age };
            assert_eq!(pressure.judge(&options), expected, "{pressure:?}");
            assert_eq!(pressure.judge(&never), None);
        }
    }
}
