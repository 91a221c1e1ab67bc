//! Jobs, partitions and their results.

use std::sync::Arc;
use std::time::Duration;

use super::backoff::Uncharged;
use super::lane::LaneName;
use crate::event::Event;

/// Partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Number of the partition.
    pub partition: i32,
}

/// Period from taking a partition until it is revoked or taken again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Tenure {
    pub(crate) partition: PartitionId,
    /// Number from a counter of this consumer, unique across its partitions.
    pub(crate) number: u64,
}

/// Offset to commit for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) partition: PartitionId,
    pub(crate) end: i64,
    /// Number of the assignment. Kafka may answer after the partition was assigned again.
    pub(super) assignment: u64,
}

/// Number of a job from a counter of this consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobId(pub(crate) u64);

/// Events for one transaction, in order.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) events: Vec<Arc<Event>>,
    /// Number of the attempt, from 1. Greater than 1 only for a single event.
    pub(crate) attempt: u32,
    /// Number of process crashes while a handler was at the event. Greater than 0 only for a single event.
    pub(crate) begun: u32,
    /// The event is in the table, and is removed there when it is done. Only for a single event.
    pub(crate) is_parked: bool,
    /// Offset before which no event of the partition is open.
    pub(crate) open_from: i64,
}

/// Result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The handler was called and the transaction committed.
    Done,
    /// No handler was called: the events were done before, or they wait in the table for earlier ones.
    Repeated,
    /// As [`Outcome::Done`], and events in the table have waited for this one.
    Closed,
    /// The handler failed.
    Failed {
        /// Kind of the failure.
        kind: FailureKind,
        /// Error and its causes.
        error: String,
    },
    /// Another consumer owns the partition.
    Fenced,
    /// The database differs from the one in which the partition was taken, or has been restarted since.
    Moved,
    /// PostgreSQL ended the transaction. The handler did not fail, and other transactions can continue.
    Uncharged {
        /// Reason why PostgreSQL ended it.
        reason: Uncharged,
        /// Error and its causes.
        error: String,
    },
    /// PostgreSQL does not answer. The handler did not fail.
    Unavailable,
}

/// Kind of a failure, which decides whether another attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// Another attempt may succeed.
    Retry,
    /// No attempt can succeed: the event itself is invalid.
    Poison,
}

/// Reason for which an event was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The handler failed at the last attempt.
    Exhausted,
    /// The handler reported the event as invalid, or its id is missing.
    Poison,
    /// The process ended each time while a handler was at the event.
    Crashed,
}

/// Event to be given up.
#[derive(Debug, Clone)]
pub(crate) struct Surrender {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) event: Arc<Event>,
    pub(crate) reason: Reason,
    pub(crate) attempts: u32,
    pub(crate) error: String,
    /// The event is in the table.
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
    /// Failure of the first event, if it has failed. The other events are later ones of its lane.
    pub(crate) failed: Option<Failed>,
}

/// Failure of an event.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(crate) attempts: u32,
    pub(crate) wait: Duration,
    pub(crate) error: String,
    /// Number of process crashes while a handler was at the event, if the event waits for that reason; otherwise 0.
    pub(crate) begun: u32,
}

/// Request to read the first event of a lane from the table.
#[derive(Debug, Clone)]
pub(crate) struct Load {
    pub(crate) id: JobId,
    pub(crate) tenure: Tenure,
    pub(crate) lane: LaneName,
}

/// First event of a lane in the table.
#[derive(Debug, Clone)]
pub(crate) enum Loaded {
    /// The table has no event of the lane.
    Nothing,
    /// The event may be handled.
    Due {
        event: Arc<Event>,
        attempts: u32,
        /// Number of process crashes while a handler was at the event, if it was parked for that reason.
        begun: u32,
    },
    /// The event must wait for this time.
    Waits(Duration),
    /// The event is a dead letter, and its key has not been released.
    Dead,
    /// The table could not be read.
    Unavailable,
}

/// Event in the table, without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParkedEvent {
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) offset: i64,
    /// Remaining wait. `None` if other events must come before it.
    pub(crate) wait: Option<Duration>,
}
