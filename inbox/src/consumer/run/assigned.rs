//! State of the assigned partitions.

use std::collections::HashMap;
use std::sync::Arc;

use crate::core::{Commit, PartitionId, Positions};

/// State of a partition since it was assigned. It is gone when the partition is revoked: nothing of it is valid for the next
/// assignment.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// Events that are certainly new, if the consumer recognizes repeats by position.
    pub(super) positions: Option<Positions>,
    /// Offset up to which the partition has ended, as PostgreSQL has stored it.
    pub(super) stored: Option<i64>,
    /// Offset at which this consumer began to read the partition, if it did so before the partition was assigned.
    pub(super) began: Option<i64>,
    /// True if Kafka has accepted an offset.
    pub(super) is_accepted: bool,
    /// True if the topic was created again. The partition is read from the beginning when it is taken again.
    pub(super) is_recreated: bool,
    /// Incarnation of the database in which the partition was last taken.
    pub(super) incarnation: Option<Arc<str>>,
}

impl Assigned {
    /// Forgets what was read: the partition is read again from an earlier offset.
    pub(super) fn rewound(&mut self) {
        self.positions = None;
        self.stored = None;
        self.is_recreated = false;
    }
}

/// Assigned partitions.
pub(super) type AssignedPartitions = HashMap<PartitionId, Assigned>;

/// Records offsets that PostgreSQL has stored, and whether Kafka has accepted them.
pub(super) fn committed(partitions: &mut AssignedPartitions, commits: &[Commit], is_accepted: bool) {
    for commit in commits {
        let Some(assigned) = partitions.get_mut(&commit.partition) else { continue };
        assigned.stored = Some(commit.end);
        assigned.is_accepted |= is_accepted;
    }
}
