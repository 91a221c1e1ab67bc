//! What is sent and done beside the stream.

use super::{Core, Reading};
use crate::kafka::Transport;
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::needs::Waiting;
use crate::relay::signals::{Signals, Task};

impl<T: Transport> Core<'_, T> {
    pub(super) fn beat(&mut self, now: Now) -> Result<(), Error> {
        let Some(pulse) = self.pulse.as_mut().filter(|_| self.reading == Reading::On && self.held.is_none())
        else {
            return Ok(());
        };
        let outcome = pulse.poll(&mut self.feed, now)?;
        self.grant(outcome, || Waiting::Heartbeat);
        Ok(())
    }

    /// Tells what there is to tell of snapshots.
    pub(super) fn notify(&mut self, now: Now) -> Result<(), Error> {
        if self.reading == Reading::Off || self.held.is_some() {
            return Ok(());
        }
        let outcome = self.feed.send_notifications(now)?;
        self.grant(outcome, || Waiting::Heartbeat);
        Ok(())
    }

    /// Nothing new is begun while the session drains.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        let signals = self.feed.signals.as_mut().filter(|_| self.reading == Reading::On);
        signals.and_then(Signals::next_task)
    }
}
