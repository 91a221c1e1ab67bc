//! libpq's password file, `~/.pgpass`: lines of `hostname:port:database:username:password`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::source::Target;
use crate::secret::Secret;

/// A password file, read at each connection. It need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PasswordFile(PathBuf);

impl PasswordFile {
    /// Names the file.
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the file that libpq reads: that of `PGPASSFILE`, or `~/.pgpass`.
    pub(crate) fn of_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let filled = |name| variable(name).filter(|value| !value.is_empty());
        let path = filled("PGPASSFILE")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&filled("HOME")?).join(".pgpass")))?;
        Some(Self(path))
    }

    /// Returns the password of the first line that fits. A file that others than its owner may read is not used, as in libpq.
    pub(super) fn read(&self, target: &Target) -> io::Result<Option<Secret>> {
        let metadata = match fs::metadata(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            metadata => metadata?,
        };
        if !metadata.is_file() {
            return Ok(None);
        }
        if is_open_to_others(&metadata) {
            tracing::warn!(
                component = "credentials",
                "{} is not used: others than its owner may read it. To fix: chmod 600 {}",
                self.0.display(),
                self.0.display()
            );
            return Ok(None);
        }
        Ok(find(&Zeroizing::new(fs::read_to_string(&self.0)?), target))
    }
}

#[cfg(unix)]
fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
const fn is_open_to_others(_: &fs::Metadata) -> bool {
    false
}

fn find(text: &str, target: &Target) -> Option<Secret> {
    let port = target.port.to_string();
    // libpq's name of a socket in the default folder.
    let is_default_socket =
        ["/tmp", "/var/run/postgresql", "/run/postgresql"].contains(&target.host.as_str());
    let host = if is_default_socket { "localhost" } else { &target.host };
    let wanted = [host, &port, &target.database, &target.user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let (fields, password) = fields(line)?;
        let fits = |(field, wanted): (&String, &&str)| field == "*" || field == wanted;
        let named_socket = fields.first().is_some_and(|field| *field == target.host);
        let mut pairs = fields.iter().zip(&wanted);
        let host_fits = pairs.next().is_some_and(fits) || named_socket;
        (host_fits && pairs.all(fits) && !password.expose().is_empty()).then_some(password)
    })
}

/// Splits a line into the four fields and the password. A backslash escapes the next character.
fn fields(line: &str) -> Option<([String; 4], Secret)> {
    // A text that grew would leave copies of what it had.
    let empty = || String::with_capacity(line.len());
    let mut fields = vec![empty()];
    let mut chars = line.trim_end_matches('\r').chars();
    while let Some(c) = chars.next() {
        // What follows the fourth colon is the password, its colons included.
        if c == ':' && fields.len() < 5 {
            fields.push(empty());
            continue;
        }
        let c = if c == '\\' { chars.next().unwrap_or('\\') } else { c };
        fields.last_mut()?.push(c);
    }
    let password = Secret::new(fields.pop()?);
    Some((fields.try_into().ok()?, password))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(host: &str) -> Target {
        Target { host: host.to_owned(), port: 5432, database: "orders".to_owned(), user: "relay".to_owned() }
    }

    #[test]
    fn the_first_line_that_fits_has_the_password() {
        let cases = [
            ("db:5432:orders:relay:a\n*:*:*:*:b", Some("a")),
            ("db:5433:orders:relay:a\n*:*:*:*:b", Some("b")),
            ("db:*:other:relay:a", None),
            ("# db:5432:orders:relay:a\n\nx\ndb:*:*:relay:a\\:b\\\\c", Some("a:b\\c")),
            ("db:5432:orders:relay:a:b", Some("a:b")),
            ("db:5432:orders:relay:", None),
            ("DB:5432:orders:relay:a", None),
            ("db:5432:orders:relay:a\r", Some("a")),
        ];
        for (text, expected) in cases {
            assert_eq!(find(text, &target("db")), expected.map(Secret::new), "{text}");
        }
        let socket = target("/run/postgresql");
        assert_eq!(find("localhost:*:*:*:s", &socket), Some(Secret::new("s")));
        assert_eq!(find("/run/postgresql:*:*:*:s", &socket), Some(Secret::new("s")));
        assert_eq!(find("a\\:\\:1:*:*:*:s", &target("a::1")), Some(Secret::new("s")));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_may_read_is_used_after_the_fix() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pgpass");
        fs::write(&path, "*:*:*:*:s").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let file = PasswordFile::new(&path);
        assert_eq!(file.read(&target("db")).unwrap(), None);
        assert!(std::process::Command::new("chmod").arg("600").arg(&path).status().unwrap().success());
        assert_eq!(file.read(&target("db")).unwrap(), Some(Secret::new("s")));
    }

    proptest! {
        #[test]
        fn any_file_is_read(text in "[a*:\\\\#\n]*") {
            drop(find(&text, &target("a")));
        }
    }
}
