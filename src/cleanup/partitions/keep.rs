//! Archiving of a partition before it is removed.

use std::io;
use std::path::{Path, PathBuf};

use postgres_protocol::escape::escape_identifier;
use tokio_util::sync::CancellationToken;

use super::tree::Partition;
use crate::cleanup::archive::{self, PartitionArchive, WholeForm, settle};
use crate::cleanup::catalog::{archive_table, column_names, pages};
use crate::cleanup::options::{ArchiveTo, Partitions};
use crate::cleanup::pass::{NO_COLUMN, PAGES, Pass, PassError};
use crate::error::chain;
use crate::postgres::Error;

/// Most bytes of rows that are fetched together for a file, unless rows suddenly become wider.
const FETCH_BYTES: usize = 4 << 20;

/// Result of archiving.
#[derive(Debug)]
pub(super) enum ArchiveOutcome {
    /// All rows are in it: in this file, if it is one.
    Whole(Option<PathBuf>),
    /// Given up, because another session waits for the partition.
    Awaited,
}

/// Number of rows of the next fetch.
#[derive(Debug, Clone, Copy)]
struct Portion {
    rows: u32,
    rows_max: u32,
    /// The bytes of a wide row; those that came long ago count less.
    widest: usize,
}

impl Portion {
    /// Returns the first portion: one row, as nothing is known of them.
    const fn first(rows_max: u32) -> Self {
        Self { rows: 1, rows_max, widest: 0 }
    }

    /// Returns the portion after one whose widest row has this number of bytes.
    fn after(self, widest: usize) -> Self {
        let widest = widest.max(self.widest / 2);
        let fit = u32::try_from(FETCH_BYTES / widest.max(1)).unwrap_or(u32::MAX);
        let rows = self.rows.saturating_mul(2).min(fit).min(self.rows_max).max(1);
        Self { rows, widest, ..self }
    }
}

impl Pass<'_> {
    /// Copies the rows to the archive.
    pub(super) async fn keep_partition(&self, partition: &Partition) -> Result<ArchiveOutcome, PassError> {
        match &self.options.archive {
            Some(to) if self.options.partitions == Partitions::Drop => match to {
                ArchiveTo::Table(_) => {
                    let table = archive_table(self.sql, to).await?;
                    self.keep_in_table(partition, &table).await
                }
                ArchiveTo::Folder(folder) => self.keep_in_file(partition, folder).await,
            },
            _ => Ok(ArchiveOutcome::Whole(None)),
        }
    }

    /// Copies the rows into a table, a few pages at a time. The partition cannot be altered meanwhile: a
    /// column that is missing is one that the archive lacks.
    async fn keep_in_table(&self, partition: &Partition, table: &str) -> Result<ArchiveOutcome, PassError> {
        const DOING: &str = "moving a partition into the archive";
        let columns: Vec<_> =
            column_names(self.sql, partition.oid).await?.iter().map(|name| escape_identifier(name)).collect();
        let columns = columns.join(", ");
        let (quoted, pages) = (partition.quoted(), pages(self.sql, partition.oid).await?);
        let mut from = 0;
        while from < pages {
            let to = from.saturating_add(PAGES);
            let text = format!(
                "insert into {table} ({columns}) select {columns} from only {quoted} as o
                 where o.ctid >= '({from},0)'::tid and o.ctid < '({to},0)'::tid"
            );
            match self.sql.execute(DOING, &text).await {
                Err(error) if error.sqlstate() == Some(NO_COLUMN) => {
                    self.sql.execute("leaving a partition as it is", "rollback").await?;
                    self.keeps_all(partition.oid, table).await?;
                    return Err(error.into());
                }
                kept => kept?,
            }
            if self.is_awaited(partition).await? {
                return Ok(ArchiveOutcome::Awaited);
            }
            from = to;
        }
        Ok(ArchiveOutcome::Whole(None))
    }

    /// Writes the rows to a file, a portion at a time: between two of them it checks whether another session
    /// waits.
    async fn keep_in_file(&self, partition: &Partition, folder: &Path) -> Result<ArchiveOutcome, PassError> {
        const DOING: &str = "archiving a partition";
        let get = |error| Error::sql(DOING, error);
        let (folder, name) = (folder.to_owned(), self.file_name(partition).await?);
        let format = self.options.archive_format;
        let form = WholeForm::of(self.sql, format, partition.oid, partition.name()).await?;
        let (row, quoted) = (form.expression("o"), partition.quoted());
        let mut file = aside(move || PartitionArchive::open(&folder, &name, &form)).await?;
        let declare = format!("declare kept no scroll cursor for select {row} from only {quoted} as o");
        self.sql.execute(DOING, &declare).await?;
        let mut portion = Portion::first(self.options.batch_rows);
        loop {
            let rows = self.sql.query(DOING, &format!("fetch {} from kept", portion.rows), &[]).await?;
            let lines = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<String>, _>>();
            let lines = lines.map_err(get)?;
            let Some(widest) = lines.iter().map(String::len).max() else { break };
            portion = portion.after(widest);
            file = aside(move || file.keep(&lines)).await?;
            if self.is_awaited(partition).await? {
                aside(move || file.give_up()).await?;
                return Ok(ArchiveOutcome::Awaited);
            }
        }
        self.sql.execute(DOING, "close kept").await?;
        Ok(ArchiveOutcome::Whole(Some(aside(move || file.finish()).await?)))
    }

    /// Returns where the rows of a partition are that is gone. If no Parquet file can be made now, it is
    /// tried again in the next pass.
    pub(super) async fn settle(&self, file: PathBuf, stop: &CancellationToken) -> PathBuf {
        let (segment, stop) = (file.clone(), stop.clone());
        match archive::aside(move || settle(segment, &stop)).await {
            Ok(path) => path,
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    file = %file.display(), error,
                    "cannot convert an archive to Parquet; its rows are safe"
                );
                file
            }
        }
    }

    /// Returns a name that is unique for the cluster, database and table.
    async fn file_name(&self, partition: &Partition) -> Result<String, Error> {
        const DOING: &str = "reading which server this is";
        let text = "select s.system_identifier::text, d.oid::text from pg_control_system() s, pg_database d
                    where d.datname = current_database()";
        let rows = self.sql.query(DOING, text, &[]).await?;
        let get = |error| Error::sql(DOING, error);
        let row = rows.first();
        let row = row.ok_or(Error::Unexpected { message: "empty answer".to_owned(), doing: DOING })?;
        let (system, database): (&str, &str) = (row.try_get(0).map_err(get)?, row.try_get(1).map_err(get)?);
        Ok(format!("{}-{system}-{database}-{}", partition.name(), partition.oid))
    }
}

async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, PassError> {
    archive::aside(work).await.map_err(PassError::Archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_have_a_limit_in_rows_and_in_bytes() {
        let mut portion = Portion::first(1_000);
        for (widest, rows) in
            [(100, 2), (100, 4), (FETCH_BYTES / 3, 3), (100, 6), (3 * FETCH_BYTES, 1), (0, 1)]
        {
            portion = portion.after(widest);
            assert_eq!(portion.rows, rows, "after {widest}");
        }
        let narrow = (0..40).fold(portion, |portion, _| portion.after(100));
        assert_eq!(narrow.rows, 1_000);
    }
}
