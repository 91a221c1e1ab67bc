//! Deletion of expired records.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::connections::Connections;
use super::statements::{PURGE, PURGED_MAX};
use crate::postgres::Error;

/// Periodic deletion of expired records, in a task that ends with this value.
#[derive(Debug)]
pub(super) struct Purger {
    connections: Arc<Connections>,
    every: Duration,
    task: Mutex<JoinSet<()>>,
}

impl Purger {
    pub(super) fn new(connections: Arc<Connections>, every: Duration) -> Self {
        Self { connections, every, task: Mutex::default() }
    }

    /// Starts the task in the runtime of the caller, unless it is running.
    pub(super) fn start(&self) {
        let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
        // Remove a task that has ended with its runtime.
        while task.try_join_next().is_some() {}
        if task.is_empty() {
            task.spawn(purge_every(Arc::clone(&self.connections), self.every));
        }
    }
}

async fn purge_every(connections: Arc<Connections>, every: Duration) {
    let mut ticks = tokio::time::interval(every.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match connections.purge().await {
            Ok(count) => tracing::debug!(count, "old idempotency records are deleted"),
            Err(error) => tracing::warn!(%error, "old idempotency records are not deleted yet"),
        }
    }
}

impl Connections {
    /// Deletes expired records, in batches that are small enough not to block other statements for long. Returns the number of deleted
    /// records.
    pub(super) async fn purge(&self) -> Result<u64, Error> {
        let open = self.get().await?;
        let mut purged = 0;
        loop {
            let deleted = open.session.client().execute(PURGE, &[&PURGED_MAX]).await;
            let count = deleted.map_err(Error::of("delete old records"))?;
            purged += count;
            if count < PURGED_MAX.unsigned_abs() {
                return Ok(purged);
            }
        }
    }
}
