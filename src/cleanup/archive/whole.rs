use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::lines::{one_line, sync_folder};

/// So many files of one name there may be.
const NAMESAKES_MAX: u32 = 1_000;

/// A file that has all rows of a partition, or is not there: it gets its name when everything is on the disk.
#[derive(Debug)]
pub(crate) struct PartitionArchive {
    file: BufWriter<File>,
    unfinished: PathBuf,
    folder: PathBuf,
    name: String,
}

impl PartitionArchive {
    /// Begins a file, or begins it again after a crash.
    pub(crate) fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let name = super::plain(name);
        let unfinished = folder.join(format!(".{name}.ndjson.part"));
        let file = BufWriter::new(File::create(&unfinished)?);
        Ok(Self { file, unfinished, folder: folder.to_owned(), name })
    }

    /// More rows, each as a JSON object.
    pub(crate) fn keep(mut self, rows: &[String]) -> io::Result<Self> {
        for row in rows {
            writeln!(self.file, "{}", one_line(row))?;
        }
        Ok(self)
    }

    /// There is no file then.
    pub(crate) fn give_up(self) -> io::Result<()> {
        fs::remove_file(&self.unfinished)
    }

    /// Everything is on the disk then, under the file's name.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let path = self.path()?;
        fs::rename(&self.unfinished, &path)?;
        sync_folder(&path)?;
        Ok(path)
    }

    /// A name that no file has, unless it has the same rows: what is in an archive is nowhere else.
    fn path(&self) -> io::Result<PathBuf> {
        for number in 1..=NAMESAKES_MAX {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let path = self.folder.join(format!("{}{again}.ndjson", self.name));
            if !path.try_exists()? || is_same(&path, &self.unfinished)? {
                return Ok(path);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many files begin with {}", self.name)))
    }
}

fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (BufReader::new(File::open(one)?), BufReader::new(File::open(other)?));
    loop {
        let (a, b) = (one.fill_buf()?, other.fill_buf()?);
        let both = a.len().min(b.len());
        if both == 0 {
            return Ok(a.is_empty() && b.is_empty());
        }
        if a.get(..both) != b.get(..both) {
            return Ok(false);
        }
        one.consume(both);
        other.consume(both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let begun = |rows: &[&str]| {
            let rows: Vec<_> = rows.iter().map(|row| (*row).to_owned()).collect();
            PartitionArchive::open(folder.path(), "public.o/1-7").unwrap().keep(&rows).unwrap()
        };
        drop(begun(&["{\"a\":1}", "{\"a\":2}"]));
        let path = folder.path().join("public.o_1-7.ndjson");
        assert!(!path.exists());
        assert_eq!(begun(&["{\"a\":3}"]).finish().unwrap(), path);
        begun(&["{\"a\":4}"]).give_up().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":3}\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        // Another table's, or what was archived before and did not go.
        let second = folder.path().join("public.o_1-7-2.ndjson");
        assert_eq!(begun(&["{\"a\":5}"]).finish().unwrap(), second);
        for (row, expected) in [("{\"a\":3}", &path), ("{\"a\":5}", &second)] {
            assert_eq!(begun(&[row]).finish().unwrap(), *expected);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
