//! Cache of the files that are fetched from Maven Central once for all processes.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::reason;

/// Returns a folder of the cache. `fill` fills it once, in the first process that asks, while the others wait.
pub(crate) fn cached(name: &str, fill: impl FnOnce(&Path)) -> PathBuf {
    let cache = cache_folder();
    let home = cache.join(name);
    if home.exists() {
        return home;
    }
    fs::create_dir_all(&cache).unwrap();
    let lock = File::create(cache.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    if !home.exists() {
        let partial = cache.join(format!("{name}.partial"));
        if partial.exists() {
            fs::remove_dir_all(&partial).unwrap();
        }
        fs::create_dir_all(&partial).unwrap();
        fill(&partial);
        fs::rename(&partial, &home).unwrap();
    }
    home
}

/// Runs a command to its end. Its output is shown if it fails.
pub(crate) fn run(what: &str, command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{}", reason(command, &error)));
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{what} failed\n{stdout}\n{stderr}");
}

fn cache_folder() -> PathBuf {
    let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    xdg.unwrap_or_else(|| env::home_dir().unwrap().join(".cache")).join("outboxd")
}
