use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::sync_folder;

/// A file that has all rows of a partition, or is not there: it gets its name when everything is on the disk.
#[derive(Debug)]
pub(crate) struct PartitionArchive {
    file: BufWriter<File>,
    unfinished: PathBuf,
    path: PathBuf,
}

impl PartitionArchive {
    /// Begins a file, or begins it again after a crash.
    pub(crate) fn open(folder: &Path, name: &str) -> io::Result<Self> {
        let plain = super::plain(name);
        let unfinished = folder.join(format!(".{plain}.ndjson.part"));
        let file = BufWriter::new(File::create(&unfinished)?);
        Ok(Self { file, unfinished, path: folder.join(format!("{plain}.ndjson")) })
    }

    /// One more row, as a JSON object.
    pub(crate) fn keep(&mut self, row: &str) -> io::Result<()> {
        writeln!(self.file, "{row}")
    }

    /// Everything is on the disk then, under the file's name.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        sync_folder(&self.path)?;
        Ok(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let begun = |rows: &[&str]| {
            let mut file = PartitionArchive::open(folder.path(), "public.o/1-7").unwrap();
            rows.iter().for_each(|row| file.keep(row).unwrap());
            file
        };
        drop(begun(&["{\"a\":1}", "{\"a\":2}"]));
        let path = folder.path().join("public.o_1-7.ndjson");
        assert!(!path.exists());
        assert_eq!(begun(&["{\"a\":3}"]).finish().unwrap(), path);
        assert_eq!(fs::read_to_string(path).unwrap(), "{\"a\":3}\n");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
