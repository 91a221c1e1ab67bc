//! The schedule of heartbeat records: one at each interval, unless the last one is still in flight.

use std::time::{Duration, Instant};

use super::feed::{Feed, Outcome};
use crate::connect::converter::ConvertError;
use crate::connect::{BeatError, Heartbeat};
use crate::kafka::Transport;
use crate::relay::delivery::needs::Need;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::time::clock::Now;

/// The session's heartbeats: one record at each interval, unless the last one is still on its way.
pub(in crate::relay) struct Pulse {
    heartbeat: Heartbeat,
    interval: Duration,
    due: Instant,
}

impl Pulse {
    /// Creates it with the first beat due after one interval. Returns `None` when heartbeats are disabled.
    pub(in crate::relay) fn new(parts: &RelayParts, now: Instant) -> Option<Self> {
        let options = parts.relay.heartbeat.as_ref()?;
        let heartbeat = parts.route.heartbeat(options.topic.clone());
        Some(Self { heartbeat, interval: options.interval, due: now + options.interval })
    }

    /// Returns the time of the next beat.
    pub(in crate::relay) const fn due(&self) -> Instant {
        self.due
    }

    /// Sends a record when one is due. One that needs something first stays due.
    pub(in crate::relay) fn poll(
        &mut self,
        feed: &mut Feed<'_, impl Transport>,
        now: Now,
    ) -> Result<Outcome, Error> {
        if now.instant < self.due {
            return Ok(Outcome::None);
        }
        let need = match self.heartbeat.beat(now.unix_ms(), feed.schemas()) {
            Ok(Some(record)) => feed.out.flight.send_heartbeat(&record.as_record(&record.headers()))?,
            Ok(None) => None,
            Err(BeatError::Convert(ConvertError::Unregistered(registration))) => {
                Some(Need::Schema(registration))
            }
            Err(error) => {
                tracing::error!(%error, "cannot write a heartbeat");
                None
            }
        };
        if let Some(need) = need {
            return Ok(Outcome::Lacks(need));
        }
        self.due = now.instant + self.interval;
        Ok(Outcome::None)
    }
}
