//! Locks that delay the application for a moment only.

use std::time::Duration;

use tokio::time::sleep;

use super::tree::{Partition, Tree};
use crate::cleanup::options::Partitions;
use crate::cleanup::pass::{Pass, YIELDED};
use crate::postgres::Error;

/// Longest time for which the application's inserts wait, at each lock of the whole outbox.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Number of attempts, and the pause between them, in which the inserts run.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);
/// Part of `deadlock_timeout` for which a lock on a partition is waited for, with no other lock: the server
/// looks for deadlocks after that time, and may then end another transaction.
pub(super) const DEADLOCK_SHARE: u32 = 2;
/// The same part for each of three locks (the outbox, the partition, the default one) that removing a
/// partition waits for while it has some that another session may want, so that all three waits together must
/// be shorter.
const DEADLOCK_SHARE_EACH: u32 = 4;

/// Returns the statement that limits each wait for a lock in this transaction.
pub(super) fn limit(wait: Duration, share: u32) -> String {
    let wait = wait.as_millis();
    format!(
        "select set_config('lock_timeout', greatest(1, least({wait}, setting::int / {share}))::text, true) \
         from pg_settings where name = 'deadlock_timeout'"
    )
}

impl Pass<'_> {
    /// Removes a partition, which needs the whole outbox for a moment, for which the application's inserts
    /// would wait: so not for long, and again later. Returns false when there was no such moment, or another
    /// session waits for the partition.
    ///
    /// A late writer to the partition has the outbox, which this transaction requests, and waits for the
    /// partition, which this transaction has. If the writer had waited as long as `deadlock_timeout` while
    /// this transaction waits too, the server would end the writer's transaction. So nothing is requested
    /// while a writer waits, and the wait is shorter than that.
    pub(super) async fn remove(&self, tree: &Tree, partition: &Partition) -> Result<bool, Error> {
        let (quoted, table) = (partition.quoted(), tree.table.quoted());
        let statement = match self.options.partitions {
            Partitions::Detach => format!("alter table {table} detach partition {quoted}"),
            Partitions::Rows | Partitions::Drop => format!("drop table {quoted}"),
        };
        self.attempt(partition, &statement).await
    }

    /// Returns whether there is such a moment, and releases all locks.
    pub(super) async fn has_moment(&self, tree: &Tree, partition: &Partition) -> Result<bool, Error> {
        let (quoted, table) = (partition.quoted(), tree.table.quoted());
        // As `DROP` does: first the outbox, then the partition.
        let statement = format!(
            "lock table only {table} in access exclusive mode; lock table only {quoted} in access exclusive mode; \
             rollback to savepoint attempt"
        );
        self.attempt(partition, &statement).await
    }

    /// Runs statements that need the whole outbox, after a savepoint.
    async fn attempt(&self, partition: &Partition, statement: &str) -> Result<bool, Error> {
        const DOING: &str = "taking a partition away";
        let limit = limit(WAIT_MAX.min(self.options.lock_timeout), DEADLOCK_SHARE_EACH);
        let attempt = format!("savepoint attempt; {limit}; {statement}");
        for _ in 0..ATTEMPTS {
            if self.is_awaited(partition).await? {
                return Ok(false);
            }
            match self.sql.execute(DOING, &attempt).await {
                Ok(()) => return Ok(true),
                Err(error) if error.sqlstate().is_some_and(|state| YIELDED.contains(&state)) => {
                    self.sql.execute(DOING, "rollback to savepoint attempt").await?;
                    sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Returns whether another session waits for a partition, most often to write to it.
    pub(super) async fn is_awaited(&self, partition: &Partition) -> Result<bool, Error> {
        const DOING: &str = "looking who waits for a partition";
        const WAITING: &str = "
            select from pg_locks where locktype = 'relation' and not granted and relation = $1
                   and database = (select oid from pg_database where datname = current_database())";
        Ok(!self.sql.query(DOING, WAITING, &[&partition.oid.0]).await?.is_empty())
    }
}
