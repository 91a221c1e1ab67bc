//! An example as a process: this test binary again, so that it is never an older build.

use std::env;
use std::fs::{self, File};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::{self, Watcher, signal};

/// The arguments of the process that [`Process::start`] starts, one a line. outboxd takes variables that begin with its own name for keys.
const ARGUMENTS: &str = "INBOX_TEST_ARGUMENTS";

/// Returns the command line if this process is an example.
pub(crate) fn arguments() -> Option<Vec<String>> {
    let arguments = env::var(ARGUMENTS).ok()?;
    Some(["example"].into_iter().chain(arguments.lines()).map(str::to_owned).collect())
}

/// An example as a process, killed when this value is dropped or the test process ends.
pub(crate) struct Process {
    process: Child,
    watcher: Watcher,
}

impl Process {
    /// Starts the example that this test of the binary plays.
    pub(crate) fn start<'a>(test: &str, arguments: impl Iterator<Item = &'a str>) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", test, "--nocapture"]);
        command.env(ARGUMENTS, arguments.collect::<Vec<_>>().join("\n"));
        Self::of(command)
    }

    /// Starts any program.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut watcher = Watcher::new("outboxd-inbox-");
        let log = File::create(watcher.folder().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let process = command.spawn().unwrap();
        watcher.watch(&process);
        Self { process, watcher }
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.reap();
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn stop(mut self) {
        signal(&mut self.process, "TERM");
        assert!(self.wait_for_exit().success(), "{}", self.log());
    }

    /// Sends SIGSTOP.
    pub(crate) fn pause(&mut self) {
        watcher::pause(&mut self.process);
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self) {
        signal(&mut self.process, "CONT");
    }

    /// Waits until it leaves on its own.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self) -> ExitStatus {
        eventually(DEADLINE, "the example has left", || self.process.try_wait().unwrap().is_some());
        self.reap()
    }

    /// Reports whether it has left on its own.
    #[allow(dead_code, reason = "the chaos needs it")]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }

    /// Returns its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.watcher.folder().join("log")).unwrap()
    }

    fn reap(&mut self) -> ExitStatus {
        let status = self.process.wait().unwrap();
        self.watcher.release();
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("it said:\n{}", self.log());
        }
        if self.process.try_wait().is_ok_and(|left| left.is_none()) {
            self.process.kill().unwrap();
            self.reap();
        }
    }
}
