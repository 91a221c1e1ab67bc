//! Archives of deleted rows.
//!
//! ```text
//! batch ─▶ file of lines, on the disk ─▶ DELETE commits ─▶ … ─▶ nothing is added any more ─▶ Parquet file, on the disk ─▶ lines are removed
//! ```
//!
//! Disks are waited for on threads of their own: see [`aside()`].

mod aside;
mod column;
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only the Parquet writer uses all of it"))]
mod convert;
mod lines;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "without_parquet.rs"]
mod parquet;
#[cfg_attr(not(feature = "parquet"), allow(dead_code, reason = "only the Parquet writer uses all of it"))]
mod segment;
mod segments;
mod whole;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use postgres_protocol::escape::escape_identifier;
use tokio_util::sync::CancellationToken;

use super::catalog::{Leaf, archive_table, column_names};
use super::options::{ArchiveFormat, ArchiveTo, CleanupOptions};
use super::pass::PassError;
use crate::postgres::Sql;
pub(super) use aside::aside;
pub(crate) use convert::{ConvertError, Converted, Which, convert_all};
use lines::Lines;
use segments::Segments;
pub(crate) use whole::{PartitionArchive, WholeForm, settle};

/// Destination of rows before they are deleted.
#[derive(Debug)]
pub(crate) enum Archive {
    /// Nowhere.
    None,
    /// Into a table, in the transaction that deletes them.
    Table(String),
    /// Into a file of this name that is on the disk before that transaction commits, and that is made when there is a row. After a crash in
    /// between they are in two files.
    Lines(PathBuf, Option<Arc<Lines>>),
    /// The same, and of that file a Parquet file is made later.
    Segments(Segments),
}

impl Archive {
    /// Opens the configured archive, for the rows of a table.
    pub(crate) async fn open(sql: &Sql, options: &CleanupOptions, leaf: &Leaf) -> Result<Self, PassError> {
        let (folder, format) = match &options.archive {
            None => return Ok(Self::None),
            Some(to @ ArchiveTo::Table(_)) => return Ok(Self::Table(archive_table(sql, to).await?)),
            Some(ArchiveTo::Folder(folder)) => (folder.clone(), options.archive_format),
        };
        #[cfg(not(feature = "parquet"))]
        if format == ArchiveFormat::Parquet {
            return Err(PassError::Parquet(folder, ConvertError::NotBuilt));
        }
        if format == ArchiveFormat::Parquet {
            return Ok(Self::Segments(Segments::of(sql, folder, leaf).await?));
        }
        Ok(Self::Lines(folder.join(file_name(&leaf.name, unix_seconds())), None))
    }

    /// Returns where the rows are now, as far as they are in files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::None | Self::Table(_) => Vec::new(),
            Self::Lines(path, lines) => lines.iter().map(|_| path.clone()).collect(),
            Self::Segments(segments) => segments.files(),
        }
    }

    /// Returns whether the rows of a batch must be archived before it may commit.
    pub(super) const fn is_files(&self) -> bool {
        matches!(self, Self::Lines(..) | Self::Segments(_))
    }

    /// Returns the statement that deletes rows of `leaf`, where `delete` deletes them as `gone`. It returns a
    /// row for each, with a text where a file wants it.
    pub(super) fn statement(&self, delete: &str, leaf: &Leaf) -> String {
        match self {
            Self::None => format!("{delete} returning null::text"),
            Self::Lines(..) => format!("{delete} returning row_to_json(gone)::text"),
            Self::Segments(segments) => format!("{delete} returning {}", segments.expression("gone")),
            Self::Table(table) => {
                let columns: Vec<_> = leaf.columns.iter().map(|column| escape_identifier(column)).collect();
                let columns = columns.join(", ");
                format!(
                    "with gone as ({delete} returning gone.*) insert into {table} ({columns}) \
                     select {columns} from gone returning null::text"
                )
            }
        }
    }

    /// Refuses rows that were deleted in a transaction that is open, when their table has other columns by
    /// now than those that are archived. The columns cannot be changed before that transaction ends. A line
    /// names its columns itself.
    pub(super) async fn admit(&self, sql: &Sql, leaf: &Leaf) -> Result<(), PassError> {
        let same = match self {
            Self::None | Self::Lines(..) => true,
            Self::Table(_) => column_names(sql, leaf.oid).await? == leaf.columns,
            Self::Segments(segments) => segments.has_columns(sql).await?,
        };
        if same { Ok(()) } else { Err(PassError::Changed) }
    }

    /// Stores the rows of a batch; they are on the disk then. If they cannot be, none of them is stored.
    pub(super) async fn keep(&mut self, rows: Vec<String>) -> Result<(), PassError> {
        match self {
            Self::None | Self::Table(_) => Ok(()),
            Self::Lines(..) if rows.is_empty() => Ok(()),
            Self::Lines(path, lines) => {
                let (path, open) = (path.clone(), lines.clone());
                let kept = aside(move || {
                    let lines = open.map_or_else(|| Lines::open(&path).map(Arc::new), Ok)?;
                    lines.append(&rows)?;
                    Ok(lines)
                });
                *lines = Some(kept.await.map_err(PassError::Archive)?);
                Ok(())
            }
            Self::Segments(segments) => segments.keep(rows).await,
        }
    }

    /// Makes a Parquet file of a segment that nothing is added to any more.
    pub(super) async fn rotate(&mut self, stop: &CancellationToken) -> Result<(), PassError> {
        match self {
            Self::None | Self::Table(_) | Self::Lines(..) => Ok(()),
            Self::Segments(segments) => segments.rotate(stop).await,
        }
    }

    /// Closes the archive, to which nothing is added any more.
    pub(crate) async fn close(&mut self, stop: &CancellationToken) -> Result<(), PassError> {
        match self {
            Self::None | Self::Table(_) | Self::Lines(..) => Ok(()),
            Self::Segments(segments) => segments.close(stop).await,
        }
    }
}

impl ArchiveTo {
    /// Returns the table, quoted for SQL: `schema.table` or `table`.
    pub(crate) fn table(&self) -> String {
        let Self::Table(table) = self else { return String::new() };
        match table.split_once('.') {
            Some((schema, name)) => format!("{}.{}", escape_identifier(schema), escape_identifier(name)),
            None => escape_identifier(table),
        }
    }
}

impl CleanupOptions {
    /// Makes Parquet files of segments that are in the folder of the archive, if there is one.
    pub(crate) async fn convert(
        &self,
        all: bool,
        stop: &CancellationToken,
    ) -> Result<Vec<Converted>, PassError> {
        let Some(ArchiveTo::Folder(folder)) = &self.archive else { return Ok(Vec::new()) };
        let (folder, stop) = (folder.clone(), stop.clone());
        let which = if all { Which::All } else { Which::Due(unix_seconds()) };
        aside(move || convert_all(&folder, which, &stop)).await.map_err(PassError::Archive)
    }
}

/// Returns the name of the file of an hour and table.
fn file_name(table: &str, seconds: u64) -> String {
    format!("{}-{}.ndjson", plain(table), seconds / 3_600 * 3_600)
}

/// Returns the present time in seconds since 1970.
fn unix_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_secs())
}

/// Returns a name without the characters that a file's name may not have.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
