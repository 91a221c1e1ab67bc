//! Where rows are kept that are taken away.
//!
//! ```text
//! batch ─▶ file of lines, on the disk ─▶ DELETE commits
//! ```
//!
//! Disks are waited for on threads of their own: see [`aside`].

mod aside;
mod lines;
mod whole;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use postgres_protocol::escape::escape_identifier;

use super::catalog::Leaf;
use super::options::{ArchiveTo, CleanupOptions};
use super::pass::PassError;
pub(super) use aside::aside;
use lines::Lines;
pub(crate) use whole::PartitionArchive;

/// Where rows go before they are gone.
#[derive(Debug)]
pub(crate) enum Archive {
    /// Nowhere.
    None,
    /// Into a table, in the transaction that deletes them.
    Table(String),
    /// Into a file that is on the disk before that transaction commits. After a crash in between they are in two files.
    Lines(Arc<Lines>),
}

impl Archive {
    /// Opens what the options say, for the rows of a table.
    pub(crate) async fn open(options: &CleanupOptions, leaf: &Leaf) -> Result<Self, PassError> {
        let folder = match &options.archive {
            None => return Ok(Self::None),
            Some(to @ ArchiveTo::Table(_)) => return Ok(Self::Table(to.table())),
            Some(ArchiveTo::Folder(folder)) => folder.clone(),
        };
        let path = folder.join(file_name(&leaf.name, unix_seconds()));
        let lines = aside(move || Lines::open(&path)).await.map_err(PassError::Archive)?;
        Ok(Self::Lines(Arc::new(lines)))
    }

    /// Where the rows are now, as far as they are in files.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::None | Self::Table(_) => Vec::new(),
            Self::Lines(lines) => vec![lines.path().to_owned()],
        }
    }

    /// Whether the rows of a batch must be kept before it may commit.
    pub(super) const fn is_files(&self) -> bool {
        matches!(self, Self::Lines(_))
    }

    /// The statement that takes rows of `leaf` away, where `delete` deletes them as `gone`. It returns a row for each, with a text
    /// where a file wants it.
    pub(super) fn statement(&self, delete: &str, leaf: &Leaf) -> String {
        match self {
            Self::None => format!("{delete} returning null::text"),
            Self::Lines(_) => format!("{delete} returning row_to_json(gone)::text"),
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

    /// Keeps the rows of a batch; they are on the disk then. If they cannot be, none of them is kept.
    pub(super) async fn keep(&mut self, rows: Vec<String>) -> Result<(), PassError> {
        match self {
            Self::None | Self::Table(_) => Ok(()),
            Self::Lines(lines) => {
                let lines = Arc::clone(lines);
                aside(move || lines.append(&rows)).await.map_err(PassError::Archive)
            }
        }
    }
}

impl ArchiveTo {
    /// The table as SQL wants it: `schema.table` or `table`.
    pub(super) fn table(&self) -> String {
        let Self::Table(table) = self else { return String::new() };
        match table.split_once('.') {
            Some((schema, name)) => format!("{}.{}", escape_identifier(schema), escape_identifier(name)),
            None => escape_identifier(table),
        }
    }
}

/// One file an hour and table.
fn file_name(table: &str, seconds: u64) -> String {
    format!("{}-{}.ndjson", plain(table), seconds / 3_600 * 3_600)
}

/// The time of day, and of years.
fn unix_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_secs())
}

/// A name without what a file's may not have.
fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests;
