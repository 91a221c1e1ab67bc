use std::time::Instant;

use super::partition::Standing;
use super::{Commit, Core, PartitionId};

impl Core {
    /// What is to be committed: what has ended and Kafka has not accepted. What it has accepted is committed again after a
    /// while, since the last commit of the consumer before may have come late and be the one that counts.
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

    /// Kafka has accepted these.
    pub(crate) fn committed(&mut self, now: Instant, commits: &[Commit]) {
        for commit in commits {
            let partition = self.partitions.get_mut(&commit.partition);
            if let Some(partition) = partition.filter(|partition| partition.assignment == commit.assignment) {
                partition.offsets.set_committed(commit.end, now);
            }
        }
    }

    /// Up to where each partition has ended that is this consumer's.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&PartitionId, i64)> {
        let owned = self.partitions.iter().filter(|(_, partition)| partition.standing == Standing::Owned);
        owned.filter_map(|(id, partition)| Some((id, partition.offsets.contiguous_end()?)))
    }
}
