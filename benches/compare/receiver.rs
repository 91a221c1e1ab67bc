//! `pg_recvlogical`: the program that PostgreSQL itself has for this, writing to /dev/null.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use crate::clock::pause;
use crate::contestant::Took;
use crate::drain::Trial;
use crate::lab::Lab;
use crate::options::Options;
use crate::support::watcher::Watcher;
use crate::usage::{Process, Usage, process};

const NAME: &str = "pg_recvlogical";
const PACKAGES: &str = "/usr/lib/postgresql";
const LOOK_EVERY: Duration = Duration::from_millis(2);
const WITHIN: Duration = Duration::from_secs(600);

/// Returns the program that the user names, the server's own, the newest of a package, or the one in the path.
pub(crate) fn find(options: &Options, bindir: &str) -> Option<PathBuf> {
    if let Some(named) = &options.pg_recvlogical {
        return Some(named.clone());
    }
    let mut packages: Vec<PathBuf> = fs::read_dir(PACKAGES)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    packages.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = [PathBuf::from(bindir)].into_iter().chain(packages.into_iter().rev());
    folders.chain(env::split_paths(&path)).map(|folder| folder.join(NAME)).find(|program| program.is_file())
}

pub(crate) fn drain(program: &Path, trial: &Trial<'_>) -> Result<Took, String> {
    let address = trial.lab.db.address();
    let mut command = Command::new(program);
    command.args(["--host", &address.host, "--port", &address.port.to_string(), "--username", &address.user]);
    command.args(["--dbname", &address.database, "--slot", trial.slot, "--start", "--no-loop"]);
    command.args(["--endpos", &trial.end.to_string(), "--file", "/dev/null"]);
    command.args(["--option", "proto_version=1"]);
    command.arg("--option").arg(format!("publication_names={}", Lab::publication()));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let mut watcher = Watcher::new("outboxd-compare-");
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    watcher.watch(&child);
    let usage = wait(child.id(), start + WITHIN);
    let status = match usage {
        Some(_) => child.wait().unwrap(),
        None => child.try_wait().unwrap().ok_or_else(|| format!("has not ended in {WITHIN:?}"))?,
    };
    let wall = start.elapsed();
    watcher.release();
    match status.success() {
        true => Ok(Took { wall, first: None, usage }),
        false => Err(format!("{status}")),
    }
}

/// Waits until a child has ended, without reaping it. `None` if it is still running, or if the system reports nothing.
fn wait(pid: u32, deadline: Instant) -> Option<Usage> {
    let mut peak_bytes = None;
    while Instant::now() < deadline {
        match process(pid) {
            Process::Running(usage) => peak_bytes = usage.peak_bytes.max(peak_bytes),
            Process::Ended(usage) => return Some(Usage { peak_bytes, ..usage }),
            Process::Unknown => return None,
        }
        pause(LOOK_EVERY);
    }
    None
}
