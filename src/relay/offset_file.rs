use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::Error;
use crate::kafka::StoredValue;
use crate::source_offset::{OffsetKey, OffsetMap};

/// A larger file is not Debezium's: an offset has some hundred bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The value that the file of a `FileOffsetBackingStore` has for a key; none when there is no file yet.
pub(super) fn read(path: &Path, key: &OffsetKey) -> Result<Option<StoredValue>, Error> {
    let map = load(path)?;
    let stored_at = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = stored_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let stored_at_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    Ok(map.get(key.as_bytes()).map(|bytes| StoredValue { bytes: bytes.to_vec(), stored_at_ms }))
}

/// Replaces the value for a key and leaves the others. The new file takes the place of the old one at once: a crash
/// leaves one of the two.
pub(super) fn write(path: &Path, key: &OffsetKey, value: String) -> Result<(), Error> {
    let mut map = load(path)?;
    map.insert(key.as_bytes(), value.into_bytes());
    let mut next = path.as_os_str().to_owned();
    next.push(".new");
    replace(path, Path::new(&next), &map.to_bytes()).map_err(|source| broken(path, "written", source))
}

fn load(path: &Path) -> Result<OffsetMap, Error> {
    let failed = |source| broken(path, "read", source);
    let length = match fs::metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OffsetMap::default()),
        Err(error) => return Err(failed(error)),
    };
    if length > BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    let bytes = fs::read(path).map_err(failed)?;
    OffsetMap::parse(&bytes).map_err(|source| Error::NoOffsetMap { path: path.display().to_string(), source })
}

fn replace(path: &Path, next: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(next)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(next, path)
}

fn broken(path: &Path, doing: &'static str, source: io::Error) -> Error {
    Error::OffsetFile { path: path.display().to_string(), doing, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_it_does_not_replace() {
        let folder = std::env::temp_dir().join(format!("outboxd-offset-file-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("offsets.dat");
        let recorded = include_bytes!("../../tests/golden/offsets/debezium-server-3.6.0.dat");
        let (debezium, ours) = (OffsetKey::new("kafka", "srv"), OffsetKey::new("kafka", "other"));
        assert_eq!(read(&path, &ours).unwrap(), None, "no file");
        fs::write(&path, recorded).unwrap();
        let before = read(&path, &debezium).unwrap().unwrap();
        write(&path, &ours, "{}".to_owned()).unwrap();
        assert_eq!(read(&path, &ours).unwrap().unwrap().bytes, b"{}");
        assert_eq!(read(&path, &debezium).unwrap().unwrap().bytes, before.bytes);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left beside it");

        fs::write(&path, &recorded[..40]).unwrap();
        assert!(matches!(write(&path, &ours, "{}".to_owned()), Err(Error::NoOffsetMap { .. })));
        assert_eq!(fs::read(&path).unwrap(), &recorded[..40], "what cannot be read is left alone");
        fs::remove_dir_all(folder).unwrap();
    }
}
