//! Offsets: stored in PostgreSQL, then committed to Kafka.

use std::sync::Arc;
use std::time::Instant;

use super::{Ended, GIVE_BACK_WITHIN, Loop};
use crate::consumer::handler::Handler;
use crate::consumer::offsets::Stored;
use crate::consumer::telemetry::Operation;
use crate::core::{Input, PartitionId, Tenure};
use crate::kafka::{Began, GroupOffset, InboxContext};
use crate::postgres::{End, NotStored};

impl<H: Handler, C: InboxContext> Loop<H, C> {
    /// Starts a commit unless one is running: commits must not overtake each other. Invariant: an offset is committed to
    /// Kafka only after PostgreSQL has stored it. So a Kafka offset beyond the stored one means that the database has lost
    /// transactions.
    pub(super) fn commit(&mut self) {
        let commits = self.core.commits(Instant::now());
        if self.is_committing || commits.is_empty() {
            return;
        }
        self.is_committing = true;
        let (tenures, ends) = self.held_ends(commits.iter().map(|commit| (&commit.partition, commit.end)));
        let is_accepted =
            |id: &&PartitionId| self.assigned.get(*id).is_some_and(|assigned| assigned.is_accepted);
        let to_commit = commits.iter().map(|commit| &commit.partition);
        let accepted = to_commit.filter(is_accepted).cloned().collect::<Vec<_>>();
        let (committer, context, connection) =
            (self.kafka.committer(), Arc::clone(&self.context), self.idle.pop());
        let offsets = self.group_offsets(commits.iter().map(|commit| (&commit.partition, commit.end)));
        self.tasks.spawn(async move {
            let (stored, connection) = context.store_offsets(connection, &ends).await;
            match stored {
                Stored::All => {}
                Stored::Nothing => return Ended::Commit(Vec::new(), false, connection),
                Stored::AllBut(not_stored) => {
                    let tenure =
                        |(index, reason): (usize, NotStored)| Some((tenures.get(index)?.clone(), reason));
                    return Ended::NotStored(not_stored.into_iter().filter_map(tenure).collect(), connection);
                }
            }
            let telemetry = context.telemetry.clone();
            let committed = tokio::task::spawn_blocking(move || {
                let gone = committer.without_offset(&accepted);
                if !gone.is_empty() {
                    return Err(gone);
                }
                let began = Instant::now();
                let is_accepted = committer.commit(offsets.iter().map(|(id, offset)| (id, offset)));
                telemetry.asked(Operation::Commit, None, began.elapsed(), is_accepted);
                Ok((commits, is_accepted))
            });
            match committed.await.unwrap_or_else(|_| Ok(Default::default())) {
                Ok((commits, is_accepted)) => Ended::Commit(commits, is_accepted, connection),
                Err(gone) => Ended::Recreated(gone, connection),
            }
        });
    }

    /// Returns these ends with the tenures and tenancies of their partitions. Partitions that are not held are skipped.
    fn held_ends<'i>(&self, ends: impl Iterator<Item = (&'i PartitionId, i64)>) -> (Vec<Tenure>, Vec<End>) {
        let held = |id: &PartitionId| self.tenancies.iter().find(|(tenure, _)| tenure.partition == *id);
        let ends = ends.filter_map(|(id, next_offset)| {
            let (tenure, tenancy) = held(id)?;
            let (tenancy, last_stored) =
                (tenancy.clone(), self.assigned.get(id).and_then(|assigned| assigned.stored));
            Some((tenure.clone(), End { tenancy, next_offset, last_stored }))
        });
        ends.unzip()
    }

    /// Takes partitions again whose topic was deleted and created again, and reads them from the beginning.
    pub(super) fn take_recreated(&mut self, gone: Vec<PartitionId>) {
        for id in gone {
            tracing::warn!(
                topic = &*id.topic,
                partition = id.partition,
                "the offset of the consumer group is gone: the topic was deleted and created again. Reading it from the beginning"
            );
            if let Some(assigned) = self.assigned.get_mut(&id) {
                (assigned.is_accepted, assigned.is_recreated) = (false, true);
            }
            let tenure = self.tenancies.keys().find(|tenure| tenure.partition == id).cloned();
            tenure.into_iter().for_each(|tenure| self.turn(Input::Moved(tenure)));
        }
    }

    /// Takes partitions again for which no offset was stored.
    pub(super) fn take_not_stored(&mut self, not_stored: Vec<(Tenure, NotStored)>) {
        for (tenure, reason) in not_stored {
            self.turn(match reason {
                NotStored::Moved => Input::Moved(tenure),
                NotStored::Fenced => Input::Lost(tenure),
            });
        }
    }

    /// Sets the offsets that the Kafka consumer commits when a partition is revoked: those that PostgreSQL has stored.
    pub(super) fn set_ends(&self) {
        self.kafka.set_ends(self.group_offsets(self.stored_ends()).into_iter());
    }

    fn stored_ends(&self) -> impl Iterator<Item = (&PartitionId, i64)> {
        self.assigned.iter().filter_map(|(id, assigned)| Some((id, assigned.stored?)))
    }

    fn group_offsets<'i>(
        &self,
        ends: impl Iterator<Item = (&'i PartitionId, i64)>,
    ) -> Vec<(PartitionId, GroupOffset)> {
        let began = |id| {
            let consumer = Arc::clone(&self.context.consumer);
            self.began_at(id).map(|offset| Began { offset, consumer })
        };
        ends.map(|(id, offset)| (id.clone(), GroupOffset { offset, began: began(id) })).collect()
    }

    /// Returns the offset at which this consumer began to read a partition.
    pub(super) fn began_at(&self, id: &PartitionId) -> Option<i64> {
        self.assigned.get(id).and_then(|assigned| assigned.began).or_else(|| self.core.first_read(id))
    }

    /// Stores the last offsets. Returns those that may be committed to Kafka.
    pub(super) async fn store_last(&mut self) -> Vec<(PartitionId, i64)> {
        let ends: Vec<(PartitionId, i64)> = self.core.ends().map(|(id, end)| (id.clone(), end)).collect();
        let (_, held) = self.held_ends(ends.iter().map(|(id, end)| (id, *end)));
        let store = self.context.store_offsets(self.idle.pop(), &held);
        match tokio::time::timeout(GIVE_BACK_WITHIN, store).await {
            Ok((Stored::All, connection)) => {
                self.keep(connection);
                ends
            }
            _ => self.stored_ends().map(|(id, end)| (id.clone(), end)).collect(),
        }
    }

    /// Commits the last offsets, behind any commit in progress.
    pub(super) async fn commit_last(self, ends: Vec<(PartitionId, i64)>, deadline: tokio::time::Instant) {
        // Kafka revokes the partitions when the consumer is closed.
        let offsets = self.group_offsets(ends.iter().map(|(id, end)| (id, *end)));
        self.kafka.set_ends(offsets.iter().cloned());
        let committer = self.kafka.committer();
        let commit = move || committer.commit(offsets.iter().map(|(id, offset)| (id, offset)));
        let committed = tokio::time::timeout_at(deadline, tokio::task::spawn_blocking(commit)).await;
        if !matches!(committed, Ok(Ok(true))) {
            tracing::warn!("the last offsets are not committed: their events will be given again");
        }
    }
}
