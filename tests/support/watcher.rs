use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::wait::{DEADLINE, eventually};

/// Each line names the process to kill at the end; an empty one means none. A process that is dead but not reaped has no
/// command line any more.
const SCRIPT: &str = r#"
pid=
while read -r line; do pid=$line; done
if [ -n "$pid" ]; then
    kill -s KILL "$pid"
    while grep -q . "/proc/$pid/cmdline"; do sleep 0.05; done
fi
rm -rf "$1"
"#;

/// The variable that names the folder for the servers' files. `tests/run` sets it: a folder in memory, if there is enough.
pub(crate) const FOLDER: &str = "OUTBOXD_TEST_FOLDER";

/// A folder and at most one process, both gone when this value is dropped or the test process dies, by SIGKILL too.
#[derive(Debug)]
pub(crate) struct Watcher {
    shell: Child,
    folder: PathBuf,
}

impl Watcher {
    /// Makes the folder.
    pub(crate) fn new(prefix: &str) -> Self {
        let parent = env::var_os(FOLDER).map_or_else(env::temp_dir, PathBuf::from);
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent).unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "watcher"]).arg(folder.path()).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = command.spawn().unwrap();
        Self { shell, folder: folder.keep() }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Kills this process at the end, instead of the one named before.
    pub(crate) fn watch(&mut self, process: &Child) {
        self.report(&process.id().to_string());
    }

    /// Releases the process, which has ended and is reaped: another process may get its id from now on.
    pub(crate) fn release(&mut self) {
        self.report("");
    }

    fn report(&mut self, line: &str) {
        writeln!(self.shell.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder().join(name).display().to_string()
    }

    /// Replaces a file at once, as an agent for secrets and the kubelet do. Only its owner may read it.
    pub(crate) fn replace(&self, name: &str, text: &str) -> String {
        let (path, draft) = (self.path(name), self.path("draft"));
        fs::write(&draft, text).unwrap();
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(draft, &path).unwrap();
        path
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().unwrap();
    }
}

/// Sends a signal, by its name without SIG, unless the process has ended: its id may be another one's by now. The shell's own `kill`, for a
/// machine without procps.
pub(crate) fn signal(process: &mut Child, name: &str) {
    if process.try_wait().unwrap().is_some() {
        return;
    }
    let script = r#"kill -s "$1" "$2""#;
    let status =
        Command::new("/bin/sh").args(["-c", script, "kill", name, &process.id().to_string()]).status();
    assert!(status.unwrap().success(), "cannot send SIG{name}");
}

/// Sends SIGSTOP and waits until no thread runs: on a busy machine a thread may still read what comes after the signal.
pub(crate) fn pause(process: &mut Child) {
    signal(process, "STOP");
    let threads = format!("/proc/{}/task", process.id());
    eventually(DEADLINE, "every thread has stopped", || {
        // A process that has ended has no thread, and a thread that has ended no file.
        let threads = fs::read_dir(&threads).into_iter().flatten().flatten();
        threads.map(|thread| fs::read_to_string(thread.path().join("stat"))).all(|status| {
            // The state follows the name, which is in parentheses.
            status.map_or(true, |stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')))
        })
    });
}
