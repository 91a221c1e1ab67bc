//! Events that are sent to a retry topic.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::handler::Handler;
use super::work::Context;
use crate::core::{Input, Reason, Surrender};
use crate::event::Event;
use crate::kafka::now_ms;
use crate::retry_topic::RetryRecord;

impl<H: Handler> Context<H> {
    /// Returns the input for an event that was read, with the rest of the wait of its retry topic.
    pub(super) fn received(&self, event: Arc<Event>) -> Input {
        let retry = self.retry_topics.as_ref().and_then(|_| RetryRecord::of(&event));
        let left = retry.map_or(0, |retry| retry.not_before_ms.saturating_sub(now_ms().unwrap_or_default()));
        match u64::try_from(left) {
            Ok(left) if left > 0 => Input::Delayed(event, Instant::now() + Duration::from_millis(left)),
            _ => Input::Received(event),
        }
    }

    /// Returns how often an event failed before it was written to the topic that it was read from.
    pub(super) fn attempts_before(&self, event: &Event) -> u32 {
        let retry = self.retry_topics.as_ref().and_then(|_| RetryRecord::of(event));
        retry.map_or(0, |retry| retry.attempts)
    }

    /// Returns the topic that an event was first written to.
    pub(super) fn first_topic(&self, event: &Event) -> Arc<str> {
        let retry = self.retry_topics.as_ref().and_then(|_| RetryRecord::of(event));
        retry.map_or_else(|| Arc::clone(&event.topic), |retry| Arc::from(retry.topic))
    }

    /// Returns the retry topic for an event that would otherwise be given up, and how long it waits there.
    pub(super) fn retry_topic(&self, surrender: &Surrender) -> Option<(String, Duration)> {
        let (topics, event) = (self.retry_topics.as_ref()?, &surrender.event);
        if surrender.reason != Reason::Exhausted {
            return None;
        }
        let origin = RetryRecord::of(event).map_or_else(|| event.topic.to_string(), |retry| retry.topic);
        topics.next(&event.topic, &origin, &self.consumer)
    }

    /// Logs whether a failed event goes to a retry topic or becomes a dead letter.
    pub(super) fn report(&self, surrender: &Surrender) {
        let (event, attempts, error) = (&surrender.event, surrender.attempts, &surrender.error);
        let (topic, partition, offset) = (&*event.topic, event.partition, event.offset);
        match self.retry_topic(surrender) {
            Some((next, wait)) => {
                tracing::warn!(
                    topic,
                    partition,
                    offset,
                    attempts,
                    error,
                    next,
                    ?wait,
                    "an event is tried again later"
                );
            }
            None => {
                let message = "an event is given up: it becomes a dead letter";
                tracing::error!(topic, partition, offset, attempts, error, "{message}");
            }
        }
    }
}
