//! The event that a handler receives.

use std::ops::Deref;
use std::sync::Arc;

use crate::event::{Event, Identity};

/// Event that is passed to a handler.
#[derive(Debug, Clone)]
pub struct Delivery {
    event: Arc<Event>,
    identity: Identity,
    attempt: u32,
    span: u64,
}

impl Delivery {
    pub(crate) fn new(event: Arc<Event>, identity: Identity, attempt: u32) -> Self {
        Self { event, identity, attempt, span: fastrand::u64(1..) }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Returns the event's id. A repeat is an event with the same source and id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// Returns the scope of the id: the topic, or the source of a CloudEvent; empty with `IdScope::Consumer`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.identity.source
    }

    /// Returns the number of this attempt, from 1. Attempts before a crash and in other processes do not count, attempts in
    /// retry topics do.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the number of the span in which the event is handled. It is the parent in the trace of the events that the
    /// handler writes.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.span
    }
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
