use std::sync::Arc;
use std::time::Duration;

use super::backoff::Uncharged;
use super::lane::LaneName;
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
    /// It is the first one since the partition was assigned.
    pub(crate) is_first: bool,
}

/// Up to where a partition is to be committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) partition: PartitionId,
    pub(crate) end: i64,
    /// By which assignment. Kafka's answer may come when the partition was assigned anew.
    pub(super) assignment: u64,
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
    /// It is in the table, from where it goes when it is done. Only for a single event.
    pub(crate) is_parked: bool,
    /// No event of the partition before this offset is open.
    pub(crate) open_from: i64,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Committed, or done before.
    Done,
    /// The same, and events in the table have waited for it.
    Closed,
    /// The handler failed.
    Failed {
        /// Whether another attempt can help.
        kind: FailureKind,
        /// The error and its causes.
        error: String,
    },
    /// Another consumer has the partition.
    Fenced,
    /// PostgreSQL has ended the transaction; the handler is not to blame, and others can go on.
    Uncharged {
        /// Why.
        reason: Uncharged,
        /// The error and its causes.
        error: String,
    },
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
    /// It is in the table.
    pub(crate) is_parked: bool,
    /// The later events of its key wait until it is released.
    pub(crate) key_waits: bool,
}

/// Events of a lane to be written to the table, in order.
#[derive(Debug, Clone)]
pub(crate) struct Park {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) events: Vec<Arc<Event>>,
    /// What is known of the first one, if that has failed. The others have come behind it.
    pub(crate) failed: Option<Failed>,
}

/// An event that has failed.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) attempts: u32,
    pub(crate) wait: Duration,
    pub(crate) error: String,
    /// How often a process has ended in the middle of it, if that is why it waits.
    pub(crate) begun: u32,
}

/// The first event of a lane to be read from the table.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) lane: LaneName,
}

/// The first event of a lane, from the table.
#[derive(Debug, Clone)]
pub(crate) enum Loaded {
    /// There is none.
    Nothing,
    /// It may be handled.
    Due {
        event: Arc<Event>,
        attempts: u32,
        /// It has waited because a process has ended in the middle of it so often.
        begun: u32,
    },
    /// Not yet.
    Waits(Duration),
    /// It is a dead letter, and nobody has released its key.
    Dead,
    /// The table could not be read.
    Unavailable,
}

/// An event in the table, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParkedEvent {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) offset: i64,
    /// How long it still waits. `None` when others must come before it.
    pub(crate) wait: Option<Duration>,
}
