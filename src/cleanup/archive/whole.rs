//! Archives of whole partitions.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::column::{columns, expression};
use super::convert::{ConvertError, convert_closed};
use super::lines::{one_line, sync_folder};
use super::segment::{Header, NAMESAKES_MAX, SUFFIX};
use crate::cleanup::options::ArchiveFormat;
use crate::postgres::{Error, Sql};
use crate::wal::Oid;

/// Form of a partition's rows.
#[derive(Debug, Clone)]
pub(crate) enum WholeForm {
    /// Final form.
    Ndjson,
    /// A segment, of which a Parquet file is made when the partition is gone.
    Parquet(Header),
}

/// A file that has all rows of a partition, or is not there: it gets its name when everything is on the disk.
#[derive(Debug)]
pub(crate) struct PartitionArchive {
    file: BufWriter<File>,
    unfinished: PathBuf,
    folder: PathBuf,
    name: String,
    suffix: &'static str,
}

impl WholeForm {
    /// Makes the form from the columns of the partition while they are locked.
    pub(crate) async fn of(sql: &Sql, format: ArchiveFormat, oid: Oid, name: String) -> Result<Self, Error> {
        match format {
            ArchiveFormat::Ndjson => Ok(Self::Ndjson),
            ArchiveFormat::Parquet => {
                let columns = columns(sql, oid).await?;
                Ok(Self::Parquet(Header { table: name, columns, since: None }))
            }
        }
    }

    /// Returns the expression of a row of `alias` as a line.
    pub(crate) fn expression(&self, alias: &str) -> String {
        match self {
            Self::Ndjson => format!("row_to_json({alias})::text"),
            Self::Parquet(header) => expression(&header.columns, alias),
        }
    }
}

impl PartitionArchive {
    /// Begins a file, or begins it again after a crash.
    pub(crate) fn open(folder: &Path, name: &str, form: &WholeForm) -> io::Result<Self> {
        let (suffix, first) = match form {
            WholeForm::Ndjson => (".ndjson", String::new()),
            WholeForm::Parquet(header) => (SUFFIX, header.line()?),
        };
        let name = super::plain(name);
        let unfinished = folder.join(format!(".{name}{suffix}.part"));
        let mut file = BufWriter::new(File::create(&unfinished)?);
        file.write_all(first.as_bytes())?;
        Ok(Self { file, unfinished, folder: folder.to_owned(), name, suffix })
    }

    /// Adds rows, each a JSON object.
    pub(crate) fn keep(mut self, rows: &[String]) -> io::Result<Self> {
        for row in rows {
            writeln!(self.file, "{}", one_line(row))?;
        }
        Ok(self)
    }

    /// Removes the unfinished file.
    pub(crate) fn give_up(self) -> io::Result<()> {
        fs::remove_file(&self.unfinished)
    }

    /// Finishes the file: everything is on the disk then, under the file's name.
    pub(crate) fn finish(mut self) -> io::Result<PathBuf> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let path = self.path()?;
        fs::rename(&self.unfinished, &path)?;
        sync_folder(&path)?;
        Ok(path)
    }

    /// Returns a name that no file has, unless it has the same rows: what is in an archive is nowhere else.
    fn path(&self) -> io::Result<PathBuf> {
        for number in 1..=NAMESAKES_MAX {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let path = self.folder.join(format!("{}{again}{}", self.name, self.suffix));
            if !path.try_exists()? || is_same(&path, &self.unfinished)? {
                return Ok(path);
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many files begin with {}", self.name)))
    }
}

/// Makes a Parquet file of a partition that is gone, if that is how it is kept. Where its rows are then.
pub(crate) fn settle(file: PathBuf, stop: &CancellationToken) -> Result<PathBuf, ConvertError> {
    if !file.to_string_lossy().ends_with(SUFFIX) {
        return Ok(file);
    }
    Ok(convert_closed(&file, stop)?.unwrap_or(file))
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
    use crate::cleanup::archive::column::{Column, Kind};

    #[test]
    fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let begun = |rows: &[&str]| {
            let rows: Vec<_> = rows.iter().map(|row| (*row).to_owned()).collect();
            PartitionArchive::open(folder.path(), "public.o/1-7", &WholeForm::Ndjson)
                .unwrap()
                .keep(&rows)
                .unwrap()
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

    #[test]
    fn a_partition_that_did_not_go_is_in_one_parquet_file_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let columns = vec![Column { name: "a".to_owned(), kind: Kind::Int4, nullable: false }];
        let form = WholeForm::Parquet(Header { table: "public.o_1".to_owned(), columns, since: None });
        let stop = CancellationToken::new();
        let kept = |row: &str| {
            let archive = PartitionArchive::open(folder.path(), "public.o_1-7", &form).unwrap();
            archive.keep(&[format!("{{\"a\":\"{row}\"}}")]).unwrap().finish().unwrap()
        };
        let path = folder.path().join("public.o_1-7.parquet");
        for _ in 0..2 {
            assert_eq!(settle(kept("1"), &stop).unwrap(), path);
        }
        // A crash came before it was known whether the partition is gone.
        kept("1");
        assert_eq!(settle(kept("1"), &stop).unwrap(), path);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(settle(kept("2"), &stop).unwrap(), folder.path().join("public.o_1-7.2.parquet"));
    }
}
