//! Where rows are kept that are taken away.

mod whole;

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use postgres_protocol::escape::escape_identifier;

use super::catalog::Leaf;
use super::options::ArchiveTo;
pub(crate) use whole::PartitionArchive;

/// So much of the end of a file is looked at for the end of a line.
const TAIL_BYTES: u64 = 64 << 10;

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
        /// The end of its last whole line.
        end: u64,
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
            Some(to @ ArchiveTo::Table(_)) => Ok(Self::Table(to.table())),
            Some(ArchiveTo::Folder(folder)) => {
                let path = folder.join(name);
                let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path)?;
                let end = end_of_lines(&mut file)?;
                file.set_len(end)?;
                file.sync_all()?;
                sync_folder(&path)?;
                Ok(Self::File { path, file, end })
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

    /// Keeps these rows; they are on the disk then. If they cannot be, none of them is in the file.
    pub(super) fn keep(&mut self, rows: &[String]) -> io::Result<()> {
        let Self::File { file, end, .. } = self else { return Ok(()) };
        let mut text = rows.join("\n");
        if text.is_empty() {
            return Ok(());
        }
        text.push('\n');
        match file.write_all(text.as_bytes()).and_then(|()| file.sync_data()) {
            Ok(()) => {
                *end = end.saturating_add(text.len() as u64);
                Ok(())
            }
            Err(error) => {
                // The next row must not be added to half of one.
                file.set_len(*end)?;
                Err(error)
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

/// Where the last whole line ends. What comes after it was not on the disk when a crash came, and its rows are in the table.
fn end_of_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    while end > 0 {
        let from = end.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        (&*file).take(end.saturating_sub(from)).read_to_end(&mut tail)?;
        if let Some(at) = memchr::memrchr(b'\n', &tail) {
            return Ok(from.saturating_add(at as u64).saturating_add(1));
        }
        end = from;
    }
    Ok(0)
}

/// A file is found after a crash when its folder is on the disk too.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// A name without what a file's may not have.
pub(crate) fn plain(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_not_added_to_half_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let to = ArchiveTo::Folder(folder.path().to_owned());
        let path = folder.path().join("outbox.ndjson");
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
        for (left, expected) in [
            (String::new(), String::new()),
            ("{\"a\":1}\n".to_owned(), "{\"a\":1}\n".to_owned()),
            ("{\"a\":1}\n{\"a\":2".to_owned(), "{\"a\":1}\n".to_owned()),
            (format!("{{}}\n{long}"), "{}\n".to_owned()),
            (long, String::new()),
        ] {
            std::fs::write(&path, left).unwrap();
            let mut archive = Archive::open(Some(&to), "outbox.ndjson").unwrap();
            archive.keep(&["{\"a\":3}".to_owned()]).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), expected + "{\"a\":3}\n");
        }
    }
}
