//! Conversion of segments to Parquet files.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(feature = "parquet")]
use parquet::errors::ParquetError;
use tokio_util::sync::CancellationToken;

use super::lines::sync_folder;
use super::parquet::{digest, survey, write};
use super::segment::{Found, NAMESAKES_MAX, Segment, list};

/// Step of making a Parquet file of a segment. A crash may come after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A row was read, or written.
    Row,
    /// A file that begins with a point exists.
    Begun,
    /// Everything is in it.
    Written,
    /// And is on the disk.
    Synced,
    /// Has its name.
    Named,
    /// The segment is gone.
    Removed,
}

/// Reasons why there is no Parquet file. The rows are in the segment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConvertError {
    /// The disk.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Contents, or the library.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Parquet(#[from] ParquetError),
    /// The feature `parquet` is absent.
    #[cfg(not(feature = "parquet"))]
    #[error("{}", crate::error::not_built("Parquet", "parquet"))]
    NotBuilt,
    /// The segment was changed by another program.
    #[error("line {0} is no row with the columns that the first line names")]
    Line(u64),
    /// The segment was changed by another program.
    #[error("its first line does not name its columns")]
    Header,
    /// Stopped; continues after the next start.
    #[error("outboxd is stopping")]
    Stopped,
}

/// Segments that become Parquet files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that nothing is added to any more at this time, in seconds of Unix.
    Due(u64),
    All,
}

/// Result for a segment.
#[derive(Debug)]
pub(crate) struct Converted {
    pub(crate) segment: PathBuf,
    /// The Parquet file, if it had rows.
    pub(crate) file: Result<Option<PathBuf>, ConvertError>,
}

/// Makes Parquet files of the segments in a folder, and removes what crashes have left. Segments in use by
/// another process are skipped.
pub(crate) fn convert_all(
    folder: &Path,
    which: Which,
    stop: &CancellationToken,
) -> io::Result<Vec<Converted>> {
    let mut all = Vec::new();
    for segment in list(folder)? {
        let file = convert_one(&segment, which, stop).transpose();
        all.extend(file.map(|file| Converted { segment, file }));
    }
    remove_orphans(folder)?;
    Ok(all)
}

/// Makes a Parquet file of a segment that nothing is added to, unless another process does.
pub(super) fn convert_closed(path: &Path, stop: &CancellationToken) -> Result<Option<PathBuf>, ConvertError> {
    Ok(convert_one(path, Which::All, stop)?.flatten())
}

/// Makes a Parquet file of a segment; returns none when the segment is skipped.
fn convert_one(
    path: &Path,
    which: Which,
    stop: &CancellationToken,
) -> Result<Option<Option<PathBuf>>, ConvertError> {
    let segment = match Segment::claim(path)? {
        Found::Taken => return Ok(None),
        Found::Empty(path) => {
            fs::remove_file(path)?;
            return Ok(None);
        }
        Found::Segment(segment) => segment,
    };
    if let Which::Due(now) = which
        && !segment.is_due(now)?
    {
        remove(&unfinished(&segment))?;
        return Ok(None);
    }
    finish(&segment, stop).map(Some)
}

/// Makes a Parquet file of a segment, and takes the segment away.
pub(super) fn finish(segment: &Segment, stop: &CancellationToken) -> Result<Option<PathBuf>, ConvertError> {
    convert(segment, &mut |_| if stop.is_cancelled() { Err(ConvertError::Stopped) } else { Ok(()) })
}

/// Converts a segment. At each moment the rows are in the segment, or in a file that is whole. `on` is called
/// at each step, and may end it.
fn convert(
    segment: &Segment,
    on: &mut dyn FnMut(Step) -> Result<(), ConvertError>,
) -> Result<Option<PathBuf>, ConvertError> {
    let survey = survey(segment, on)?;
    if survey.rows == 0 {
        fs::remove_file(segment.path())?;
        return Ok(None);
    }
    let (path, is_there) = place(segment, &survey.digest)?;
    let unfinished = unfinished(segment);
    if !is_there {
        let file = File::create(&unfinished)?;
        on(Step::Begun)?;
        write(segment, &survey, &file, on)?;
        on(Step::Written)?;
        file.sync_all()?;
        on(Step::Synced)?;
        fs::rename(&unfinished, &path)?;
    }
    // Also when it was there: the crash may have come before its folder was on the disk.
    sync_folder(&path)?;
    on(Step::Named)?;
    remove(&unfinished)?;
    fs::remove_file(segment.path())?;
    on(Step::Removed)?;
    Ok(Some(path))
}

/// Returns the path of the file, and whether it exists: a file of that name may have other rows. No segment
/// has a name with such a number.
fn place(segment: &Segment, made_of: &str) -> io::Result<(PathBuf, bool)> {
    let name = segment.name();
    for number in 1..=NAMESAKES_MAX {
        let again = if number == 1 { String::new() } else { format!(".{number}") };
        let path = segment.path().with_file_name(format!("{name}{again}.parquet"));
        if !path.try_exists()? {
            return Ok((path, false));
        }
        if digest(&path).is_some_and(|digest| digest == made_of) {
            return Ok((path, true));
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("too many files begin with {name}")))
}

fn unfinished(segment: &Segment) -> PathBuf {
    segment.path().with_file_name(format!(".{}{UNFINISHED}", segment.name()))
}

/// Suffix of an unfinished file.
const UNFINISHED: &str = ".parquet.part";

/// Removes what a crash has left of a file whose segment was removed.
fn remove_orphans(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(of) = name.strip_prefix('.').and_then(|name| name.strip_suffix(UNFINISHED)) else {
            continue;
        };
        if !folder.join(format!("{of}{}", super::segment::SUFFIX)).try_exists()? {
            remove(&folder.join(&name))?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests;
