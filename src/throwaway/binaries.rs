//! Programs of PostgreSQL on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::account::Account;
use super::{Error, Release, cluster, download};

/// The oldest major version with what we ask of pgoutput.
const MAJOR_MIN: u16 = 14;
/// Fetched when nothing is installed and nothing was asked for.
const MAJOR_FETCHED: u16 = 18;
/// Folders in which packages have one folder a major version: Debian, Red Hat, Homebrew on both kinds of Mac.
const PACKAGE_FOLDERS: [(&str, &str); 4] = [
    ("/usr/lib/postgresql", ""),
    ("/usr", "pgsql-"),
    ("/opt/homebrew/opt", "postgresql@"),
    ("/usr/local/opt", "postgresql@"),
];

/// Makes sure that the programs are on this machine, so that [`super::ThrowawayPostgres::start`] is quick.
/// When they must be fetched, `fetching` is called with the major version first.
///
/// # Errors
/// When they are not installed and cannot be fetched.
pub(crate) fn provide(release: Release, fetching: impl FnOnce(u16)) -> Result<(), Error> {
    let account = Account::for_owner_of(cluster::folder(None)?.path())?;
    let major = major_fetched(release);
    if Binaries::installed(release).is_none() && !download::is_fetched(major, account) {
        fetching(major);
    }
    Binaries::locate(release, account).map(drop)
}

/// The programs of one PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binaries {
    /// The folder with `postgres` and `initdb`.
    pub(super) folder: PathBuf,
    /// Their major version.
    pub(super) major: u16,
}

impl Binaries {
    /// Finds the programs on this machine, or fetches them.
    pub(super) fn locate(release: Release, account: Account) -> Result<Self, Error> {
        if let Some(installed) = Self::installed(release) {
            return Ok(installed);
        }
        let major = major_fetched(release);
        let folder = download::fetched(major, account)?.join("bin");
        Ok(Self { folder, major })
    }

    fn installed(release: Release) -> Option<Self> {
        let wanted = |found: &Self| match release {
            Release::Newest => found.major >= MAJOR_MIN,
            Release::Major(major) => found.major == major,
        };
        let installed = candidates().into_iter().filter_map(Self::in_folder).filter(wanted);
        installed.max_by_key(|found| found.major)
    }

    fn in_folder(folder: PathBuf) -> Option<Self> {
        let complete = ["postgres", "initdb"].iter().all(|program| folder.join(program).is_file());
        if !complete {
            return None;
        }
        let major = major_version(&output(&folder.join("postgres"), "--version")?)?;
        Some(Self { folder, major })
    }
}

const fn major_fetched(release: Release) -> u16 {
    match release {
        Release::Newest => MAJOR_FETCHED,
        Release::Major(major) => major,
    }
}

fn candidates() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        PACKAGE_FOLDERS.iter().flat_map(|(parent, prefix)| versioned(Path::new(parent), prefix)).collect();
    folders.extend(output(Path::new("pg_config"), "--bindir").map(|folder| PathBuf::from(folder.trim_end())));
    folders.extend(env::var_os("PATH").iter().flat_map(env::split_paths));
    folders
}

fn versioned(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path().join("bin")).collect()
}

fn output(program: &Path, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Parses the major version of `postgres (PostgreSQL) 15.20 (Debian 15.20-1)`, or `18beta2`.
fn major_version(text: &str) -> Option<u16> {
    let version = text.split_once("(PostgreSQL) ")?.1;
    let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version.get(..end)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_major_version() {
        let cases = [
            ("postgres (PostgreSQL) 15.20 (Debian 15.20-1.pgdg12+1)\n", Some(15)),
            ("postgres (PostgreSQL) 18beta2\n", Some(18)),
            ("postgres (PostgreSQL) 18", Some(18)),
            ("postgres (PostgreSQL) devel\n", None),
            ("postgres 15\n", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(major_version(text), expected, "{text:?}");
        }
    }
}
