//! Debezium's `FileOffsetBackingStore`: a file of serialized Java.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::Path;
use std::time::UNIX_EPOCH;

use crate::kafka::StoredValue;
use crate::relay::error::Error;
use crate::source_offset::{OffsetKey, OffsetMap};

/// A larger file is not Debezium's: an offset has some hundred bytes.
const BYTES_MAX: u64 = 16 << 20;

/// Mode of a new file: that of any program, reduced by the umask.
const NEW_FILE_MODE: u32 = 0o666;

/// Reads the value of a key in the file of a `FileOffsetBackingStore`; none if the file does not exist.
pub(in crate::relay) fn read(path: &Path, key: &OffsetKey) -> Result<Option<StoredValue>, Error> {
    let map = load(path)?;
    let stored_at = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let since = stored_at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let stored_at_ms = since.and_then(|since| i64::try_from(since.as_millis()).ok());
    Ok(map.get(key.as_bytes()).map(|bytes| StoredValue { bytes: bytes.to_vec(), stored_at_ms }))
}

/// Replaces the value for a key and leaves the others. The new file takes the place of the old one at once: a crash
/// leaves one of the two. A link stays, and leads to the new file.
pub(in crate::relay) fn write(path: &Path, key: &OffsetKey, value: String) -> Result<(), Error> {
    let mut map = load(path)?;
    map.insert(key.as_bytes(), value.into_bytes());
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    replace(&target, &map.to_bytes()).map_err(|source| broken(path, "written", source))
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

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // An unpredictable name, and a file that did not exist: no link is followed.
    let mut next = tempfile::Builder::new()
        .prefix(".outboxd-offsets-")
        .permissions(Permissions::from_mode(NEW_FILE_MODE))
        .tempfile_in(folder)?;
    next.write_all(bytes)?;
    match fs::metadata(path) {
        Ok(before) => keep_owner_and_mode(next.as_file(), &before)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    next.as_file().sync_all()?;
    next.persist(path)?;
    // The new name is in the folder, which is written on its own.
    File::open(folder)?.sync_all()
}

fn keep_owner_and_mode(file: &File, before: &fs::Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) != (before.uid(), before.gid())
        && fchown(file, Some(before.uid()), Some(before.gid())).is_err()
    {
        // Only root may change the owner; the group may be set to one of the process's own. If neither is
        // possible, the mode still determines who reads it.
        drop(fchown(file, None, Some(before.gid())));
    }
    // Behind the owner: a change of that takes the bits for another user away.
    file.set_permissions(before.permissions())
}

fn broken(path: &Path, doing: &'static str, source: io::Error) -> Error {
    Error::OffsetFile { path: path.display().to_string(), doing, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    use super::*;

    const DEBEZIUM: &[u8] = include_bytes!("../../../tests/golden/offsets/debezium-server-3.6.0.dat");

    fn key() -> OffsetKey {
        OffsetKey::new("kafka", "other")
    }

    #[test]
    fn a_file_keeps_what_it_does_not_replace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("offsets.dat");
        let (debezium, ours) = (OffsetKey::new("kafka", "srv"), key());
        assert_eq!(read(&path, &ours).unwrap(), None, "no file");
        fs::write(&path, DEBEZIUM).unwrap();
        let before = read(&path, &debezium).unwrap().unwrap();
        write(&path, &ours, "{}".to_owned()).unwrap();
        assert_eq!(read(&path, &ours).unwrap().unwrap().bytes, b"{}");
        assert_eq!(read(&path, &debezium).unwrap().unwrap().bytes, before.bytes);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside it");

        fs::write(&path, &DEBEZIUM[..40]).unwrap();
        assert!(matches!(write(&path, &ours, "{}".to_owned()), Err(Error::NoOffsetMap { .. })));
        assert_eq!(fs::read(&path).unwrap(), &DEBEZIUM[..40], "what cannot be read is left alone");
    }

    #[test]
    fn mode_and_owner_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("offsets.dat");
        fs::write(&path, DEBEZIUM).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        // Only root may give files away.
        drop(chown(&path, Some(12_345), Some(54_321)));
        let before = fs::metadata(&path).unwrap();
        write(&path, &key(), "{}".to_owned()).unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_ne!(after.ino(), before.ino(), "it was replaced");
        let kept = |file: &fs::Metadata| (file.mode() & 0o7777, file.uid(), file.gid());
        assert_eq!(kept(&after), kept(&before));
    }

    #[test]
    fn links_are_neither_followed_beside_the_file_nor_replaced_as_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, victim) = (folder.path().join("offsets.dat"), folder.path().join("victim"));
        fs::write(&victim, "keep me").unwrap();
        symlink(&victim, folder.path().join("offsets.dat.new")).unwrap();
        write(&path, &key(), "{}".to_owned()).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "keep me");
        assert!(fs::symlink_metadata(&path).unwrap().is_file());

        let link = folder.path().join("link.dat");
        symlink(&path, &link).unwrap();
        write(&link, &key(), "{\"n\":2}".to_owned()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(read(&path, &key()).unwrap().unwrap().bytes, b"{\"n\":2}");
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_reported() {
        // No process may create files there, not even root.
        let path = Path::new("/proc/outboxd-offsets.dat");
        let error = write(path, &key(), "{}".to_owned()).unwrap_err();
        assert!(matches!(error, Error::OffsetFile { doing: "written", .. }), "{error:?}");
    }
}
