use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use postgres_protocol::escape::escape_identifier;

use super::catalog::Leaf;
use super::options::ArchiveTo;

/// Where rows go before they are gone.
#[derive(Debug)]
pub(crate) enum Archive {
    /// Nowhere.
    None,
    /// Into a table, in the transaction that deletes them.
    Table(String),
    /// Into a file that is on the disk before that transaction commits. After a crash in between they are in two files.
    File {
        /// Where.
        path: PathBuf,
        file: File,
    },
}

impl Archive {
    /// Opens what the options say. `name` is that of a new file.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(crate) fn open(to: Option<&ArchiveTo>, name: &str) -> io::Result<Self> {
        match to {
            None => Ok(Self::None),
            Some(ArchiveTo::Table(table)) => Ok(Self::Table(quoted(table))),
            Some(ArchiveTo::Folder(folder)) => {
                let path = folder.join(name);
                let file = OpenOptions::new().create(true).append(true).open(&path)?;
                Ok(Self::File { path, file })
            }
        }
    }

    /// The file, if it is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::File { path, .. } => Some(path),
            Self::None | Self::Table(_) => None,
        }
    }

    /// The statement that takes rows of `leaf` away, where `delete` deletes them as `gone`. It returns a row for each, with a text
    /// where a file wants it.
    pub(super) fn statement(&self, delete: &str, leaf: &Leaf) -> String {
        match self {
            Self::None => format!("{delete} returning null::text"),
            Self::File { .. } => format!("{delete} returning row_to_json(gone)::text"),
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

    /// Keeps these rows; they are on the disk then.
    pub(super) fn keep(&mut self, rows: &[String]) -> io::Result<()> {
        let Self::File { file, .. } = self else { return Ok(()) };
        let mut text = rows.join("\n");
        if !text.is_empty() {
            text.push('\n');
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
        }
        Ok(())
    }
}

/// `schema.table` or `table`, as SQL wants it.
fn quoted(table: &str) -> String {
    match table.split_once('.') {
        Some((schema, name)) => format!("{}.{}", escape_identifier(schema), escape_identifier(name)),
        None => escape_identifier(table),
    }
}
