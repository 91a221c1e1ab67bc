//! Offsets: stored in PostgreSQL, then committed to Kafka.

use std::sync::Arc;
use std::time::Instant;

use super::{Ended, GIVE_BACK_WITHIN, Loop};
use crate::consumer::handler::Handler;
use crate::consumer::telemetry::Operation;
use crate::core::PartitionId;
use crate::kafka::InboxContext;
use crate::postgres::Tenancy;

impl<H: Handler, C: InboxContext> Loop<H, C> {
    /// One commit at a time: they must not overtake each other. Invariant: Kafka is never told of an offset before PostgreSQL has
    /// stored it. So an offset of Kafka that is beyond the stored one tells that the database has lost transactions.
    pub(super) fn commit(&mut self) {
        let commits = self.core.commits(Instant::now());
        if self.is_committing || commits.is_empty() {
            return;
        }
        self.is_committing = true;
        let ends = self.held_ends(commits.iter().map(|commit| (&commit.partition, commit.end)));
        let (committer, context, connection) =
            (self.kafka.committer(), Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let (is_stored, connection) = context.store_offsets(connection, &ends).await;
            if !is_stored {
                return Ended::Commit(Vec::new(), false, connection);
            }
            let telemetry = context.telemetry.clone();
            let committed = tokio::task::spawn_blocking(move || {
                let began = Instant::now();
                let is_accepted =
                    committer.commit(commits.iter().map(|commit| (&commit.partition, commit.end)));
                telemetry.asked(Operation::Commit, None, began.elapsed(), is_accepted);
                (commits, is_accepted)
            });
            let (commits, is_accepted) = committed.await.unwrap_or_default();
            Ended::Commit(commits, is_accepted, connection)
        });
    }

    /// These ends with how the partitions are held.
    fn held_ends<'i>(&self, ends: impl Iterator<Item = (&'i PartitionId, i64)>) -> Vec<(Tenancy, i64)> {
        let held = |id: &PartitionId| {
            self.tenancies
                .iter()
                .find(|(tenure, _)| tenure.partition == *id)
                .map(|(_, tenancy)| tenancy.clone())
        };
        ends.filter_map(|(id, end)| Some((held(id)?, end))).collect()
    }

    /// Remembers what is committed of a partition when it is taken away: what is stored.
    pub(super) fn set_ends(&self) {
        self.kafka.set_ends(self.stored.iter().map(|(id, end)| (id, *end)));
    }

    /// Stores the last offsets. Returns those that Kafka may be told.
    pub(super) async fn store_last(&mut self) -> Vec<(PartitionId, i64)> {
        let ends: Vec<(PartitionId, i64)> = self.core.ends().map(|(id, end)| (id.clone(), end)).collect();
        let held = self.held_ends(ends.iter().map(|(id, end)| (id, *end)));
        let store = self.context.store_offsets(self.idle.pop(), &held);
        match tokio::time::timeout(GIVE_BACK_WITHIN, store).await {
            Ok((true, connection)) => {
                self.keep(connection);
                ends
            }
            _ => self.stored.iter().map(|(id, end)| (id.clone(), *end)).collect(),
        }
    }

    /// The last time. Behind one that is on its way.
    pub(super) async fn commit_last(self, ends: Vec<(PartitionId, i64)>, deadline: tokio::time::Instant) {
        // Kafka takes the partitions away when the consumer is closed.
        self.kafka.set_ends(ends.iter().map(|(id, end)| (id, *end)));
        let committer = self.kafka.committer();
        let commit = move || committer.commit(ends.iter().map(|(id, end)| (id, *end)));
        let committed = tokio::time::timeout_at(deadline, tokio::task::spawn_blocking(commit)).await;
        if !matches!(committed, Ok(Ok(true))) {
            tracing::warn!("the last offsets are not committed: their events will be given again");
        }
    }
}
