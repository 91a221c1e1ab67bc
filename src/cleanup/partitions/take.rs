//! Removal of a partition.

use postgres_protocol::escape::escape_literal;
use tokio_util::sync::CancellationToken;

use super::keep::ArchiveOutcome;
use super::moment::{DEADLOCK_SHARE, limit};
use super::tree::{Partition, Tree};
use crate::cleanup::options::Partitions;
use crate::cleanup::pass::{Pass, PassError, YIELDED};
use crate::postgres::Error;

/// `query_canceled`, by `statement_timeout`.
pub(super) const SLOW: &str = "57014";
/// `insufficient_privilege`
const FORBIDDEN: &str = "42501";
/// Errors of the connection and of a server that shuts down: then everything fails.
const CONNECTION: [&str; 2] = ["08", "57P"];

/// Result for a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Removed, with this number of rows. The file has them, if there is one.
    Removed { rows: u64, file: Option<String> },
    /// Not removed, for this reason.
    Skipped(SkipReason),
}

/// Reasons why a partition is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SkipReason {
    #[error("it has rows that are not proven to be sent, or that must be kept")]
    Unproven,
    #[error("another session has locked it, or the outbox")]
    Busy,
    #[error(
        "detached, it would be captured as a table of its own: name the outbox alone in table.include.list"
    )]
    Captured,
    #[error("it is no partition of the outbox any more")]
    Changed,
    #[error(
        "a statement lasted longer than outboxd.cleanup.statement.timeout.ms; a greater value gives it more time"
    )]
    Slow,
    #[error(
        "{text}: only a member of the role that owns the outbox and its partitions may remove them: {fix}"
    )]
    Forbidden { text: String, fix: String },
    #[error("the server refuses: {0}")]
    Refused(String),
}

impl Pass<'_> {
    /// Drops or detaches a partition if each row of it is proven to be sent. It is checked while it is locked
    /// against writers, and removed in the same transaction: a crash leaves it as it was.
    ///
    /// A session that has written to it has a lock until the end of the transaction, prepared or not, so that
    /// `SHARE ROW EXCLUSIVE` is not granted as long as there may be an invisible row, nor to two cleanups.
    /// Later writers wait.
    pub(crate) async fn take_partition(
        &self,
        tree: &Tree,
        partition: &Partition,
        stop: &CancellationToken,
    ) -> Result<Removal, PassError> {
        if stop.is_cancelled() || !self.may_go_on(stop).await? {
            return Ok(Removal::Skipped(SkipReason::Busy));
        }
        // Most that stay are known without a lock, and before a transaction that would have to end.
        match self.has_unproven(partition).await {
            Ok(false) => {}
            Ok(true) => return Ok(Removal::Skipped(SkipReason::Unproven)),
            Err(error) => return Ok(Removal::Skipped(left(tree, error)?)),
        }
        let taken = match self.prove_and_take(tree, partition, stop).await {
            Ok(taken) => taken,
            Err(PassError::Postgres(error)) => Removal::Skipped(left(tree, error)?),
            Err(error) => return Err(error),
        };
        if matches!(taken, Removal::Skipped(_)) {
            self.sql.execute("leaving a partition as it is", "rollback").await?;
        }
        Ok(taken)
    }

    async fn prove_and_take(
        &self,
        tree: &Tree,
        partition: &Partition,
        stop: &CancellationToken,
    ) -> Result<Removal, PassError> {
        const DOING: &str = "locking a partition against writers";
        let quoted = partition.quoted();
        // A snapshot of each statement's own; an error, and not fewer rows, where a policy hides some.
        let begin = format!(
            "begin isolation level read committed read write; set local row_security = off; {}; \
             lock table only {quoted} in share row exclusive mode",
            limit(self.options.lock_timeout, DEADLOCK_SHARE)
        );
        self.sql.execute(DOING, &begin).await?;
        if !self.is_still(tree, partition).await? {
            return Ok(Removal::Skipped(SkipReason::Changed));
        }
        let Some(rows) = self.proven(partition).await? else {
            return Ok(Removal::Skipped(SkipReason::Unproven));
        };
        let archives = self.options.partitions == Partitions::Drop && self.options.archive.is_some();
        // What is archived and then stays is archived again.
        if archives && !self.has_moment(tree, partition).await? {
            return Ok(Removal::Skipped(SkipReason::Busy));
        }
        let ArchiveOutcome::Whole(file) = self.keep_partition(partition).await? else {
            return Ok(Removal::Skipped(SkipReason::Busy));
        };
        if !self.remove(tree, partition).await? {
            return Ok(Removal::Skipped(SkipReason::Busy));
        }
        self.sql.execute("taking a partition away", "commit").await?;
        let file = match file {
            Some(file) => Some(self.settle(file, stop).await.display().to_string()),
            None => None,
        };
        Ok(Removal::Removed { rows, file })
    }

    /// Returns whether the name is still that partition's.
    async fn is_still(&self, tree: &Tree, partition: &Partition) -> Result<bool, Error> {
        const DOING: &str = "looking whether it is still a partition";
        let text = format!(
            "select from pg_inherits where inhrelid = $1 and inhparent = $2 and not inhdetachpending
                    and inhrelid = {}::regclass",
            escape_literal(&partition.quoted())
        );
        let rows = self.sql.query(DOING, &text, &[&partition.oid.0, &tree.table.oid.0]).await?;
        Ok(!rows.is_empty())
    }

    async fn has_unproven(&self, partition: &Partition) -> Result<bool, Error> {
        const DOING: &str = "looking for rows that are not sent";
        let (sent, old) = (self.horizon.condition("o"), self.old());
        let text =
            format!("select from only {} as o where not ({sent} and {old}) limit 1", partition.quoted());
        Ok(!self.sql.query(DOING, &text, &[]).await?.is_empty())
    }

    /// Returns the number of rows, when each is proven.
    async fn proven(&self, partition: &Partition) -> Result<Option<u64>, Error> {
        const DOING: &str = "proving that all rows are sent";
        let get = |error| Error::sql(DOING, error);
        let (sent, old) = (self.horizon.condition("o"), self.old());
        let text = format!(
            "select count(*), count(*) filter (where not ({sent} and {old})) from only {} as o",
            partition.quoted()
        );
        let rows = self.sql.query(DOING, &text, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (all, unproven): (i64, i64) = (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
        Ok(u64::try_from(all).ok().filter(|_| unproven == 0))
    }
}

/// Returns what a refusal means for the partition; the others are not concerned.
fn left(tree: &Tree, error: Error) -> Result<SkipReason, Error> {
    let text = crate::error::chain(&error);
    match error.sqlstate() {
        None => Err(error),
        Some(state) if is_of_the_connection(state) => Err(error),
        Some(SLOW) => Ok(SkipReason::Slow),
        Some(state) if YIELDED.contains(&state) => Ok(SkipReason::Busy),
        Some(FORBIDDEN) => Ok(SkipReason::Forbidden { text, fix: tree.ownership_fix() }),
        Some(_) => Ok(SkipReason::Refused(text)),
    }
}

/// Returns whether an error concerns more than one statement.
pub(super) fn is_of_the_connection(state: &str) -> bool {
    CONNECTION.iter().any(|class| state.starts_with(class))
}
