//! Archives with a JSON object in each line.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes at the end of a file that are searched for the end of a line.
const TAIL_BYTES: u64 = 64 << 10;

/// A file with a JSON object in each line. Other processes may write to it too: each locks it while it writes.
#[derive(Debug)]
pub(crate) struct Lines {
    file: File,
}

impl Lines {
    /// Opens a file, or makes it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        file.sync_all()?;
        sync_folder(path)?;
        Ok(Self { file })
    }

    /// Adds rows; they are on the disk then. If they cannot be, none of them is in the file.
    pub(super) fn append(&self, rows: &[String]) -> io::Result<()> {
        self.file.lock()?;
        let done = append(&self.file, rows);
        self.file.unlock()?;
        done
    }
}

/// Adds rows behind the last whole line of a file that no other process writes to now. They are on the disk
/// then; if they cannot be, none of them is in the file.
pub(super) fn append(mut file: &File, rows: &[String]) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let end = trim(file)?;
    let mut text = String::with_capacity(rows.iter().map(|row| row.len().saturating_add(1)).sum());
    for row in rows {
        text.push_str(&one_line(row));
        text.push('\n');
    }
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_data()) {
        // The next row must not be added to half of one.
        file.set_len(end)?;
        return Err(error);
    }
    Ok(())
}

/// Removes the half line at the end, and returns where the last whole line ends. What comes after it was not
/// on the disk when a crash came, and its rows are in the table.
pub(super) fn trim(file: &File) -> io::Result<u64> {
    let length = file.metadata()?.len();
    let end = end_of_lines(file, length)?;
    if end < length {
        file.set_len(end)?;
        file.sync_data()?;
    }
    Ok(end)
}

fn end_of_lines(file: &File, length: u64) -> io::Result<u64> {
    // Most often the file ends with a line.
    let mut size = 1;
    let mut end = length;
    while end > 0 {
        let from = end.saturating_sub(size);
        let mut tail = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or_default()];
        file.read_exact_at(&mut tail, from)?;
        if let Some(at) = memchr::memrchr(b'\n', &tail) {
            return Ok(from.saturating_add(at as u64).saturating_add(1));
        }
        (end, size) = (from, TAIL_BYTES);
    }
    Ok(0)
}

/// Returns a row in one line. A `json` value retains the line breaks with which it was written; between its
/// tokens a space means the same, and inside of a text JSON has none.
pub(super) fn one_line(row: &str) -> Cow<'_, str> {
    if memchr::memchr2(b'\n', b'\r', row.as_bytes()).is_none() {
        return Cow::Borrowed(row);
    }
    Cow::Owned(row.replace(['\n', '\r'], " "))
}

/// Syncs the folder of a file: after a crash the file is found only if its folder is on the disk too.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_row_is_not_added_to_half_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox.ndjson");
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(100_000));
        for (left, expected) in [
            (String::new(), String::new()),
            ("{\"a\":1}\n".to_owned(), "{\"a\":1}\n".to_owned()),
            ("{\"a\":1}\n{\"a\":2".to_owned(), "{\"a\":1}\n".to_owned()),
            (format!("{{}}\n{long}"), "{}\n".to_owned()),
            (long, String::new()),
        ] {
            fs::write(&path, left).unwrap();
            Lines::open(&path).unwrap().append(&["{\"a\":3}".to_owned()]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected + "{\"a\":3}\n");
        }
    }

    #[test]
    fn a_row_with_line_breaks_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox.ndjson");
        let rows = ["{\"payload\":{\r\n  \"a\": \"b\\nc\"\n}}".to_owned(), "{}".to_owned()];
        Lines::open(&path).unwrap().append(&rows).unwrap();
        let kept = fs::read_to_string(&path).unwrap();
        let values: Vec<serde_json::Value> =
            kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(values, rows.map(|row| serde_json::from_str::<serde_json::Value>(&row).unwrap()));
    }

    #[test]
    fn two_writers_of_one_file_do_not_cut_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outbox.ndjson");
        let (one, other) = (Lines::open(&path).unwrap(), Lines::open(&path).unwrap());
        one.append(&["1".to_owned()]).unwrap();
        other.append(&["2".to_owned()]).unwrap();
        // A third one died in the middle of a row while both had the file open.
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"a\":").unwrap();
        one.append(&["3".to_owned()]).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n3\n");
    }
}
