//! The EventRouter transform: a row of the outbox becomes a routed event.
