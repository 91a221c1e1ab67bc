//! Entries that do not fit into memory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::error::VerifyError;
use crate::verification::Entry;

/// All identities are cut into this many ranges, as a power of two. One range at a time is compared in memory.
const RANGE_BITS: u32 = 9;

/// Bytes of a range that are collected before they are written.
const BUFFER_BYTES: usize = 32 * 1024;

/// Maximum MiB of one range on disk. It needs about twice as much memory.
const RANGE_MEBIBYTES_MAX: u64 = 128;

/// The ranges, in order.
pub(super) const RANGES: std::ops::Range<u64> = 0..1 << RANGE_BITS;

/// A folder for what does not fit into memory. It is removed with this value.
#[derive(Debug)]
pub(super) struct Scratch(TempDir);

/// Entries on disk, by ranges of their identities. What is small stays in memory.
#[derive(Debug)]
pub(super) struct Spill<E> {
    folder: PathBuf,
    /// Kind of its entries, in messages and in file names.
    what: &'static str,
    ranges: Vec<Range>,
    entries: PhantomData<E>,
}

#[derive(Debug, Default)]
struct Range {
    buffer: Vec<u8>,
    written: u64,
}

impl Scratch {
    /// Creates a folder in `parent`, or where the system has temporary files.
    pub(super) fn new(parent: Option<&Path>) -> Result<Self, VerifyError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_owned);
        let folder = tempfile::Builder::new().prefix("outboxd-verify-").tempdir_in(&parent);
        folder.map(Self).map_err(|source| failed(&parent, "written to", source))
    }

    /// Creates room for entries.
    pub(super) fn spill<E: Entry>(&self, what: &'static str) -> Spill<E> {
        let ranges = RANGES.map(|_| Range::default()).collect();
        Spill { folder: self.0.path().to_owned(), what, ranges, entries: PhantomData }
    }
}

impl<E: Entry> Spill<E> {
    /// Adds an entry.
    pub(super) fn add(&mut self, entry: &E) -> Result<(), VerifyError> {
        let number = entry.identity().range(RANGE_BITS);
        let path = self.path(number);
        let Some(range) = usize::try_from(number).ok().and_then(|index| self.ranges.get_mut(index)) else {
            return Ok(());
        };
        if range.buffer.is_empty() {
            range.buffer.reserve_exact(BUFFER_BYTES);
        }
        entry.write(&mut range.buffer);
        if range.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        append(&path, &range.buffer).map_err(|source| failed(&path, "written", source))?;
        range.written = range.written.saturating_add(u64::try_from(range.buffer.len()).unwrap_or(u64::MAX));
        range.buffer.clear();
        if range.written > RANGE_MEBIBYTES_MAX << 20 {
            return Err(VerifyError::TooMuch { what: self.what, mebibytes: RANGE_MEBIBYTES_MAX });
        }
        Ok(())
    }

    /// Removes and returns the entries of one range.
    pub(super) fn take(&mut self, number: u64) -> Result<Vec<E>, VerifyError> {
        let path = self.path(number);
        let Some(range) = usize::try_from(number).ok().and_then(|index| self.ranges.get_mut(index)) else {
            return Ok(Vec::new());
        };
        let buffer = std::mem::take(&mut range.buffer);
        let mut entries = Vec::new();
        if range.written > 0 {
            let bytes = fs::read(&path).map_err(|source| failed(&path, "read", source))?;
            parse(&bytes, &path, &mut entries)?;
            fs::remove_file(&path).map_err(|source| failed(&path, "removed", source))?;
        }
        parse(&buffer, &path, &mut entries)?;
        Ok(entries)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}-{number}", self.what))
    }
}

fn parse<E: Entry>(mut bytes: &[u8], path: &Path, entries: &mut Vec<E>) -> Result<(), VerifyError> {
    while !bytes.is_empty() {
        let entry = E::read(&mut bytes);
        entries.push(entry.map_err(|source| VerifyError::Malformed { path: path.to_owned(), source })?);
    }
    Ok(())
}

/// Appends to a file, which is not left open: there are more ranges than a process may have files.
fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    File::options().create(true).append(true).open(path)?.write_all(bytes)
}

fn failed(path: &Path, doing: &'static str, source: io::Error) -> VerifyError {
    VerifyError::Scratch { path: path.to_owned(), doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Diagnose as _, Exit};
    use crate::verification::{Contents, Found, Identity, TopicNumber};

    fn found(offset: i64) -> Found {
        let contents = Contents::default();
        Found {
            identity: Identity::new(Some(&offset.to_le_bytes()), contents),
            contents,
            topic: TopicNumber(0),
            partition: 0,
            offset,
            timestamp_ms: None,
            behind: false,
            without_value: false,
        }
    }

    #[test]
    fn what_was_kept_is_there_once_in_the_range_of_its_identity() {
        // Enough for every range to be written some times.
        let count = 1_000_000;
        let scratch = Scratch::new(None).unwrap();
        let mut spill = scratch.spill::<Found>("records");
        (0..count).for_each(|offset| spill.add(&found(offset)).unwrap());
        assert_eq!(fs::read_dir(scratch.0.path()).unwrap().count(), RANGES.count());
        let mut seen = Vec::new();
        for range in RANGES {
            let entries = spill.take(range).unwrap();
            assert!(entries.iter().all(|entry| entry.identity.range(RANGE_BITS) == range));
            seen.extend(entries.iter().map(|entry| entry.offset));
        }
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..count));
        assert_eq!(fs::read_dir(scratch.0.path()).unwrap().count(), 0, "what was taken is removed");
        let folder = scratch.0.path().to_owned();
        drop(scratch);
        assert!(!folder.exists());
    }

    #[test]
    fn a_folder_that_cannot_be_written_to_is_reported() {
        let error = Scratch::new(Some(Path::new("/nowhere"))).unwrap_err();
        assert_eq!(error.exit(), Exit::Precondition);
        assert!(error.to_string().contains("/nowhere") && error.fix().unwrap().contains("--scratch"));
    }

    #[test]
    fn what_would_not_fit_into_memory_is_refused() {
        let scratch = Scratch::new(None).unwrap();
        let mut spill = scratch.spill::<Found>("records");
        let same = found(1);
        let error = (0..4_000_000).find_map(|_| spill.add(&same).err()).unwrap();
        assert!(matches!(error, VerifyError::TooMuch { .. }), "{error}");
    }
}
