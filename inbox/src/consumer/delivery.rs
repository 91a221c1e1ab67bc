use std::ops::Deref;
use std::sync::Arc;

use crate::event::{Event, Identity};

/// An event, as a handler is given it.
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

    /// The event's id. A repeat is an event with the same source and id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.identity.id
    }

    /// The scope of the id: the topic, or the source of a CloudEvent; empty with `IdScope::Consumer`.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.identity.source
    }

    /// Which attempt this is, from 1. Those before a crash and in another process do not count, those in retry topics do.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The number of the span in which it is handled, which is the parent in the trace of what it causes.
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
