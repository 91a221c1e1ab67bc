//! Offsets to commit.

use std::time::Instant;

use super::partition::Standing;
use super::{Commit, Core, PartitionId};

impl Core {
    /// Returns the offsets to commit: those up to which all events have ended and that Kafka has not accepted. An accepted offset
    /// is committed again after a while, since a late commit of the previous consumer may have replaced it.
    pub(crate) fn commits(&self, now: Instant) -> Vec<Commit> {
        let again_after = self.options.commit_again_after;
        let partitions =
            self.partitions.iter().filter(|(_, partition)| partition.standing == Standing::Owned);
        partitions
            .filter_map(|(id, partition)| {
                let end = partition.offsets.to_commit(now, again_after)?;
                Some(Commit { partition: id.clone(), end, assignment: partition.assignment })
            })
            .collect()
    }

    /// Records that Kafka has accepted these commits.
    pub(crate) fn committed(&mut self, now: Instant, commits: &[Commit]) {
        for commit in commits {
            let partition = self.partitions.get_mut(&commit.partition);
            if let Some(partition) = partition.filter(|partition| partition.assignment == commit.assignment) {
                partition.offsets.set_committed(commit.end, now);
            }
        }
    }

    /// Returns the first offset that was read since the partition was assigned.
    pub(crate) fn first_read(&self, id: &PartitionId) -> Option<i64> {
        self.partitions.get(id)?.offsets.first()
    }

    /// Returns the owned partitions, each with the offset before which all events have ended.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&PartitionId, i64)> {
        let owned = self.partitions.iter().filter(|(_, partition)| partition.standing == Standing::Owned);
        owned.filter_map(|(id, partition)| Some((id, partition.offsets.contiguous_end()?)))
    }
}
