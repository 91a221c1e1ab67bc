//! A segment, from which a Parquet file is made.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::column::Column;
use super::convert::ConvertError;
use super::lines::{append, sync_folder, trim};
use super::plain;

/// Suffix of a segment's name, behind the name of the Parquet file.
pub(super) const SUFFIX: &str = ".parquet.ndjson";
/// Number of bytes at which nothing is added to a segment any more; it also has a limit of seconds.
pub(super) const SEGMENT_BYTES: u64 = 256 << 20;
pub(super) const SEGMENT_SECONDS: u64 = 3_600;
/// Most files of one name.
pub(super) const NAMESAKES_MAX: u32 = 1_000;

/// The first line of a segment: what it takes to make a Parquet file of it, also when the table is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Name for messages.
    pub(super) table: String,
    pub(super) columns: Vec<Column>,
    /// Time at which it was begun, in seconds of Unix. A whole partition has none: nothing is ever added to
    /// it.
    pub(super) since: Option<u64>,
}

/// A file that rows go to until a Parquet file is made of it. Its process has a lock on it, until its end at
/// the latest.
#[derive(Debug)]
pub(super) struct Segment {
    path: PathBuf,
    file: File,
    header: Header,
}

/// Result of opening the name of a segment.
#[derive(Debug)]
pub(super) enum Found {
    Segment(Segment),
    /// A crash came before its first line: there never was a row in it.
    Empty(PathBuf),
    /// In use by another process, or gone.
    Taken,
}

impl Header {
    /// Returns its line, with the end.
    pub(super) fn line(&self) -> io::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Returns a name for its segment, and for the Parquet file.
    fn name(&self) -> String {
        format!("{}-{}", plain(&self.table), self.since.unwrap_or_default())
    }
}

impl Segment {
    /// Continues a segment for such rows, or begins one.
    pub(super) fn open(folder: &Path, header: Header) -> io::Result<Self> {
        let now = header.since.unwrap_or_default();
        for path in list(folder)? {
            if !path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&plain(&header.table)))
            {
                continue;
            }
            // An unreadable one is reported when it must become a Parquet file.
            let Ok(Found::Segment(found)) = Self::claim(&path) else { continue };
            let is_for = found.header.table == header.table && found.header.columns == header.columns;
            if is_for && !found.is_due(now)? {
                return Ok(found);
            }
        }
        Self::begin(folder, header)
    }

    fn begin(folder: &Path, header: Header) -> io::Result<Self> {
        let name = header.name();
        for number in 1..=NAMESAKES_MAX {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let path = folder.join(format!("{name}{again}{SUFFIX}"));
            match File::create_new(&path) {
                Ok(file) => drop(file),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            }
            // Another process may have removed it as an empty one meanwhile.
            let Some(file) = lock(&path)? else { continue };
            let mut line = header.line()?;
            line.truncate(line.trim_end().len());
            append(&file, &[line])?;
            sync_folder(&path)?;
            return Ok(Self { path, file, header });
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many files begin with {name}")))
    }

    /// Locks a segment for this process.
    pub(super) fn claim(path: &Path) -> Result<Found, ConvertError> {
        let Some(file) = lock(path)? else { return Ok(Found::Taken) };
        if trim(&file)? == 0 {
            return Ok(Found::Empty(path.to_owned()));
        }
        let mut line = Vec::new();
        BufReader::new(&file).read_until(b'\n', &mut line)?;
        let header = serde_json::from_slice(&line).map_err(|_| ConvertError::Header)?;
        Ok(Found::Segment(Self { path: path.to_owned(), file, header }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn table(&self) -> &str {
        &self.header.table
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.header.columns
    }

    /// Returns the name of the Parquet file, without its ending.
    pub(super) fn name(&self) -> String {
        let name = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name.strip_suffix(SUFFIX).map(str::to_owned).unwrap_or(name)
    }

    /// Adds rows; they are on the disk then. If they cannot be, none of them is in the file.
    pub(super) fn append(&self, rows: &[String]) -> io::Result<()> {
        append(&self.file, rows)
    }

    pub(super) fn is_full(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() >= SEGMENT_BYTES)
    }

    /// Returns whether nothing is added to it any more.
    pub(super) fn is_due(&self, now: u64) -> io::Result<bool> {
        let Some(since) = self.header.since else { return Ok(true) };
        Ok(now.saturating_sub(since) >= SEGMENT_SECONDS || self.is_full()?)
    }
}

/// Returns the segments of a folder, the oldest first by their names.
pub(super) fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.ends_with(SUFFIX) && !name.starts_with('.') {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Locks a file, if it is free and its name still leads to it.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let file = match OpenOptions::new().read(true).append(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (ours, there) = (file.metadata()?, fs::metadata(path));
    let is_there = there.is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
    Ok(is_there.then_some(file))
}
