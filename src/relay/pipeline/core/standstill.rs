//! Detection of a process or a machine that was frozen while records were in flight.

use std::time::Duration;

use super::Core;
use crate::kafka::Transport;
use crate::relay::time::clock::Now;

/// Time without a turn after which the process, or its machine, has stood still.
const STOOD_STILL: Duration = Duration::from_secs(3);

impl<T: Transport> Core<'_, T> {
    /// Returns whether the process has stood still with records in flight.
    pub(in crate::relay) fn stood_still(&mut self, now: Now) -> bool {
        self.check_clock(now);
        self.stood_still
    }

    pub(super) fn check_clock(&mut self, now: Now) {
        let is_late = now.instant.saturating_duration_since(self.last_tick) >= STOOD_STILL;
        self.stood_still |= is_late && !self.is_queue_empty();
    }
}
