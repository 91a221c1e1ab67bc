//! Durations as text.

use std::fmt;
use std::time::Duration;

/// A duration to one decimal: `0.4 s`, `12.5 min`, `3.0 h`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Age(pub(crate) Duration);

impl fmt::Display for Age {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match self.0.as_secs() {
            0..60 => write!(f, "{seconds:.1} s"),
            60..3600 => write!(f, "{:.1} min", seconds / 60.0),
            _ => write!(f, "{:.1} h", seconds / 3600.0),
        }
    }
}
