use std::sync::Arc;

use crate::event::Event;

/// A topic's partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub partition: i32,
}

/// A partition for the time that it is assigned to this consumer, or until it is taken again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tenure {
    pub(crate) partition: PartitionId,
    /// Counted by this consumer, for all partitions together.
    pub(crate) number: u64,
}

/// Counted by this consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// Events for one transaction, in order.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) events: Vec<Arc<Event>>,
    /// From 1. More than 1 only for a single event.
    pub(crate) attempt: u32,
    /// How often a process has ended in the middle of it. More than 0 only for a single event.
    pub(crate) begun: u32,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed, or done before.
    Done,
    /// The handler failed.
    Failed {
        /// Whether another attempt can help.
        kind: FailureKind,
        /// The error and its causes.
        error: String,
    },
    /// Another consumer has the partition.
    Fenced,
    /// PostgreSQL does not answer; the handler is not to blame.
    Unavailable,
}

/// Whether another attempt can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// It can.
    Retry,
    /// It cannot: the event itself is wrong.
    Poison,
}

/// Why an event was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The handler has failed at the last attempt.
    Exhausted,
    /// The handler says that the event is wrong, or its id is missing.
    Poison,
    /// The process ended each time while a handler was at it.
    Crashed,
}

/// An event to be given up.
#[derive(Debug, Clone)]
pub(crate) struct Surrender {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) event: Arc<Event>,
    pub(crate) reason: Reason,
    pub(crate) attempts: u32,
    pub(crate) error: String,
}
