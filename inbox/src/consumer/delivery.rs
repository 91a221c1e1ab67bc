use std::ops::Deref;
use std::sync::Arc;

use crate::event::Event;

/// An event, as a handler is given it.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub(super) event: Arc<Event>,
    pub(super) id: Arc<str>,
    pub(super) attempt: u32,
}

impl Delivery {
    /// The event's id, by which a repeat is known.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which attempt this is in this process, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

impl Deref for Delivery {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}
