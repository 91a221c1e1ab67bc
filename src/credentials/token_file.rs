//! Tokens in a file.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::PathBuf;

use zeroize::Zeroizing;

use super::Reread;
use crate::secret::Secret;

/// The most bytes of a token's file.
const BYTES_MAX: u64 = 64 << 10;
/// Room for them, and for the read that finds the end.
const CAPACITY: usize = (64 << 10) + 64;

/// A file with a token alone, which another program replaces, such as the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenFile(PathBuf);

impl TokenFile {
    /// Makes the source of a file.
    pub(crate) const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn read(&self) -> io::Result<Secret> {
        // A buffer that grew would leave copies of what it had.
        let mut text = Zeroizing::new(String::with_capacity(CAPACITY));
        File::open(&self.0)?.take(BYTES_MAX).read_to_string(&mut text)?;
        if u64::try_from(text.len()).is_ok_and(|length| length >= BYTES_MAX) {
            return Err(io::Error::other("it has 64 KiB or more"));
        }
        match text.trim() {
            "" => Err(io::Error::other("it is empty")),
            token if token.contains(char::is_whitespace) => Err(io::Error::other("it is not a token alone")),
            token => Ok(Secret::new(token)),
        }
    }
}

impl Reread for TokenFile {
    fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
        self.read().map_err(|error| format!("{}: {error}", self.0.display()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            TokenFile::new(path.clone()).reread().map(|token| token.expose().to_owned())
        };
        assert_eq!(read(" a.b.c\n").unwrap(), "a.b.c");
        for (text, reason) in [
            ("\n", "it is empty"),
            ("hunter2 hunter2", "it is not a token alone"),
            (&"x".repeat(70_000), "it has 64 KiB or more"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.ends_with(reason) && !error.contains("hunter2"), "{error}");
        }
    }
}
