//! A pass over the rows of a table.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use postgres_protocol::escape::escape_identifier;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::archive::{Archive, ConvertError};
use super::catalog::{Leaf, lacking, pressure};
use super::horizon::Horizon;
use super::options::CleanupOptions;
use super::pace::Busy;
use crate::postgres::{Error, Sql};
use crate::wal::Oid;

/// Pages that one statement reads: a row takes some of one.
pub(super) const PAGES: i64 = 128;
/// Pause before a busy server is queried again.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// `lock_not_available`, `query_canceled` by `statement_timeout`, `deadlock_detected`.
pub(super) const YIELDED: [&str; 3] = ["55P03", "57014", "40P01"];

/// The server takes no longer one, which is 24 days.
const TIMEOUT_MAX_MS: u128 = 2_147_483_647;

/// `undefined_column`
pub(super) const NO_COLUMN: &str = "42703";

/// One look at tables and what can go from them.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'p> {
    pub(crate) sql: &'p Sql,
    pub(crate) options: &'p CleanupOptions,
    pub(crate) horizon: Horizon,
    /// Callback that gets once what it waits for.
    pub(crate) waits: &'p (dyn Fn(Busy) + Sync),
}

/// The rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// Proven, and old enough.
    pub(crate) sent: i64,
    /// Proven, and to be kept.
    pub(crate) young: i64,
    /// Number of rows that are not proven yet.
    pub(crate) unproven: i64,
}

/// Result of deleting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Deleted {
    pub(crate) rows: u64,
    /// Batches that were left because they would have waited.
    pub(crate) yielded: u64,
}

/// Reasons why a pass ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PassError {
    /// The server.
    #[error(transparent)]
    Postgres(#[from] Error),
    /// The archive.
    #[error("the archive cannot be written")]
    Archive(#[source] io::Error),
    /// The rows are in the segment.
    #[error("no Parquet file can be made of {}, which has the rows", .0.display())]
    Parquet(PathBuf, #[source] ConvertError),
    /// The next pass knows the new ones.
    #[error("the columns of the table have changed meanwhile")]
    Changed,
    /// Values would be lost. `alter` makes the columns.
    #[error("table {archive} for archived rows lacks some of their columns")]
    Lacking { archive: String, alter: String },
}

impl PassError {
    /// Returns the fix, if the problem is one of columns.
    pub(crate) fn fix(&self) -> Option<&str> {
        match self {
            Self::Lacking { alter, .. } => Some(alter),
            Self::Postgres(_) | Self::Archive(_) | Self::Parquet(..) | Self::Changed => None,
        }
    }
}

impl CleanupOptions {
    /// Limits the session, so that no other session waits for it.
    pub(crate) async fn limit(&self, sql: &Sql) -> Result<(), Error> {
        let [lock, statement] =
            [self.lock_timeout, self.statement_timeout].map(|time| time.as_millis().min(TIMEOUT_MAX_MS));
        let text = format!("set lock_timeout = {lock}; set statement_timeout = {statement}");
        sql.execute("limiting how long cleanup may wait", &text).await
    }
}

impl Pass<'_> {
    /// Counts, and changes nothing.
    pub(crate) async fn count(&self, leaf: &Leaf) -> Result<Count, Error> {
        const DOING: &str = "counting rows that are sent";
        let get = |error| Error::sql(DOING, error);
        let (sent, old) = (self.horizon.condition("o"), self.old());
        let text = format!(
            "select count(*) filter (where {sent} and {old}), count(*) filter (where {sent} and not {old}),
                    count(*) filter (where not {sent}) from only {} as o",
            leaf.quoted
        );
        let rows = self.sql.query(DOING, &text, &[]).await?;
        let Some(row) = rows.first() else { return Ok(Count::default()) };
        let [sent, young, unproven] = [0, 1, 2].map(|at| row.try_get(at).map_err(get));
        Ok(Count { sent: sent?, young: young?, unproven: unproven? })
    }

    /// Deletes what is proven, until it is stopped.
    pub(crate) async fn delete(
        &self,
        leaf: &Leaf,
        archive: &mut Archive,
        stop: &CancellationToken,
        mut batch: impl FnMut(u64),
    ) -> Result<Deleted, PassError> {
        let mut deleted = Deleted::default();
        let mut page = 0;
        while page < leaf.pages && !stop.is_cancelled() {
            if !self.may_go_on(stop).await? {
                break;
            }
            match self.batch(leaf, page, archive).await {
                Ok(rows) => {
                    deleted.rows += rows;
                    batch(rows);
                    archive.rotate(stop).await?;
                    if rows < u64::from(self.options.batch_rows) {
                        page += PAGES;
                    }
                    if rows == 0 {
                        continue;
                    }
                }
                Err(PassError::Postgres(error))
                    if error.sqlstate().is_some_and(|state| YIELDED.contains(&state)) =>
                {
                    self.sql.execute("giving a batch up", "rollback").await?;
                    deleted.yielded += 1;
                    page += PAGES;
                }
                Err(error) => return Err(error),
            }
            if stop.run_until_cancelled(sleep(self.options.batch_pause)).await.is_none() {
                break;
            }
        }
        Ok(deleted)
    }

    /// Waits while the server is busy. Returns false when it is stopped.
    pub(super) async fn may_go_on(&self, stop: &CancellationToken) -> Result<bool, Error> {
        let mut told = false;
        loop {
            let Some(busy) = pressure(self.sql).await?.judge(self.options) else { return Ok(true) };
            if !std::mem::replace(&mut told, true) {
                (self.waits)(busy);
            }
            if stop.run_until_cancelled(sleep(BUSY_INTERVAL)).await.is_none() {
                return Ok(false);
            }
        }
    }

    /// Deletes some rows of some pages, in a transaction of its own. Locked rows stay.
    async fn batch(&self, leaf: &Leaf, page: i64, archive: &mut Archive) -> Result<u64, PassError> {
        const DOING: &str = "deleting rows that are sent";
        let (table, sent, old, rows) =
            (&leaf.quoted, self.horizon.condition("o"), self.old(), self.options.batch_rows);
        let (from, to) = (page, page.saturating_add(PAGES));
        let delete = format!(
            "delete from only {table} as gone where gone.ctid = any(array(
                select o.ctid from only {table} as o
                where o.ctid >= '({from},0)'::tid and o.ctid < '({to},0)'::tid and {sent} and {old}
                      and o.tableoid = {}::oid
                limit {rows} for update of o skip locked))",
            // Another table may have got the name meanwhile.
            leaf.oid
        );
        let text = archive.statement(&delete, leaf);
        if matches!(archive, Archive::None) {
            return Ok(self.sql.query(DOING, &text, &[]).await?.len() as u64);
        }
        self.sql.execute(DOING, "begin").await?;
        let gone = match self.sql.query(DOING, &text, &[]).await {
            Err(error) if error.sqlstate() == Some(NO_COLUMN) => {
                return Err(self.missing_column(leaf, archive, error).await);
            }
            gone => gone?,
        };
        let kept = match archive.admit(self.sql, leaf).await {
            Ok(()) if archive.is_files() => {
                let lines: Result<Vec<String>, _> = gone.iter().map(|row| row.try_get(0)).collect();
                archive.keep(lines.map_err(|error| Error::sql(DOING, error))?).await
            }
            admitted => admitted,
        };
        let end = if kept.is_ok() { "commit" } else { "rollback" };
        self.sql.execute(DOING, end).await?;
        kept?;
        Ok(gone.len() as u64)
    }

    /// Returns why a column is missing: one was dropped meanwhile, or the archive never had it.
    async fn missing_column(&self, leaf: &Leaf, archive: &Archive, error: Error) -> PassError {
        let look = async {
            self.sql.execute("giving a batch up", "rollback").await?;
            archive.admit(self.sql, leaf).await?;
            let Archive::Table(table) = archive else { return Ok(()) };
            self.keeps_all(leaf.oid, table).await
        };
        look.await.err().unwrap_or(PassError::Postgres(error))
    }

    /// Refuses an archive, named as SQL wants it, that lacks a column of this table.
    pub(super) async fn keeps_all(&self, table: Oid, archive: &str) -> Result<(), PassError> {
        match lacking(self.sql, table, archive).await? {
            Some(alter) => Err(PassError::Lacking { archive: archive.to_owned(), alter }),
            None => Ok(()),
        }
    }

    /// Returns the condition of rows that are old enough.
    pub(super) fn old(&self) -> String {
        match (&self.options.time_column, self.options.keep) {
            (Some(column), keep) if !keep.is_zero() => {
                let column = escape_identifier(column);
                format!(
                    "coalesce(o.{column} < now() - {} * interval '1 millisecond', false)",
                    keep.as_millis()
                )
            }
            _ => "true".to_owned(),
        }
    }
}
