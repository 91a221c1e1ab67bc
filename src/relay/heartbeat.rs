use std::time::{Duration, Instant};

use super::clock::Now;
use super::error::Error;
use super::feed::{Feed, Outcome};
use super::needs::Need;
use super::parts::RelayParts;
use crate::connect::converter::ConvertError;
use crate::connect::{BeatError, Heartbeat};
use crate::kafka::Transport;

/// The session's heartbeats: one record at each interval, unless the last one is still on its way.
pub(super) struct Pulse {
    heartbeat: Heartbeat,
    interval: Duration,
    due: Instant,
}

impl Pulse {
    /// The first beat is due after one interval. `None` when none are asked for.
    pub(super) fn new(parts: &RelayParts, now: Instant) -> Option<Self> {
        let options = parts.relay.heartbeat.as_ref()?;
        let heartbeat = parts.route.heartbeat(options.topic.clone());
        Some(Self { heartbeat, interval: options.interval, due: now + options.interval })
    }

    /// When the next beat is due.
    pub(super) const fn due(&self) -> Instant {
        self.due
    }

    /// Sends a record when one is due. One that needs something first stays due.
    pub(super) fn poll(&mut self, feed: &mut Feed<'_, impl Transport>, now: Now) -> Result<Outcome, Error> {
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
                tracing::error!(%error, "a heartbeat cannot be written");
                None
            }
        };
        if let Some(need) = need {
            return Ok(Outcome::TakeAgain(need));
        }
        self.due = now.instant + self.interval;
        Ok(Outcome::None)
    }
}
