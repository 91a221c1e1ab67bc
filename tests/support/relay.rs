use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Map, Value};

use super::wait::{DEADLINE, eventually, eventually_some};
use super::watcher::{self, Watcher, signal};

/// A connector's configuration: Debezium's keys, flat.
pub(crate) type Config = Map<String, Value>;

const OURS: &str = env!("CARGO_BIN_EXE_outboxd");

/// Returns the configuration with these keys added or replaced.
pub(crate) fn with(mut config: Config, settings: &[(&str, &str)]) -> Config {
    config.extend(settings.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))));
    config
}

/// The real binary as a child process. Killed when this value is dropped or the test process ends; its output is shown
/// when the test fails.
#[derive(Debug)]
pub(crate) struct Relay {
    process: Child,
    watcher: Watcher,
    stdout: Captured,
    stderr: Captured,
    exit: Option<ExitStatus>,
}

impl Relay {
    /// Starts `outboxd run -c FILE`, with the configuration in a file of its own.
    pub(crate) fn start(config: &Config) -> Self {
        Self::start_with(config, &[], &[])
    }

    /// Starts another build of the program.
    #[allow(dead_code, reason = "only benchmarks have another one")]
    pub(crate) fn start_program(program: &Path, config: &Config) -> Self {
        Self::run(program, config, &[], &[])
    }

    /// Starts the program with more arguments and environment variables.
    pub(crate) fn start_with(config: &Config, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        Self::run(&ours(), config, arguments, environment)
    }

    fn run(program: &Path, config: &Config, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let watcher = Watcher::new("outboxd-relay-");
        let file = watcher.folder().join("config.json");
        fs::write(&file, serde_json::to_vec_pretty(config).unwrap()).unwrap();
        let mut command = without_surroundings(program, &["run", "-c"]);
        command.arg(file).args(arguments).envs(environment.iter().copied());
        Self::spawn(&mut command, watcher)
    }

    /// Returns the file of its configuration.
    #[allow(dead_code, reason = "not all tests read the commands that it prints")]
    pub(crate) fn file(&self) -> PathBuf {
        self.watcher.folder().join("config.json")
    }

    /// Starts `outboxd run -c FILE…`, with files of any format, given as name and text.
    pub(crate) fn start_from(
        files: &[(&str, &str)],
        arguments: &[&str],
        environment: &[(String, String)],
    ) -> Self {
        let watcher = Watcher::new("outboxd-relay-");
        let mut command = outboxd(&["run"]);
        for (name, text) in files {
            let file = watcher.folder().join(name);
            fs::write(&file, text).unwrap();
            command.arg("-c").arg(file);
        }
        command.args(arguments).envs(environment.iter().map(|(name, value)| (name, value)));
        Self::spawn(&mut command, watcher)
    }

    /// Starts any other command, such as `check`; see [`Self::wait_for_exit`].
    pub(crate) fn command(arguments: &[&str]) -> Self {
        Self::command_with(arguments, &[])
    }

    /// Starts any other command with environment variables.
    pub(crate) fn command_with(arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = outboxd(arguments);
        Self::spawn(command.envs(environment.iter().copied()), Watcher::new("outboxd-command-"))
    }

    /// Sends SIGTERM: the relay drains, confirms and exits.
    pub(crate) fn terminate(&mut self) {
        signal(&mut self.process, "TERM");
    }

    /// Sends SIGINT, like Ctrl-C.
    pub(crate) fn interrupt(&mut self) {
        signal(&mut self.process, "INT");
    }

    /// Sends SIGTERM and returns the exit code; panics if the process does not exit in time.
    #[track_caller]
    pub(crate) fn stop(mut self) -> i32 {
        self.wait_for_handler();
        self.terminate();
        self.wait_for_exit(DEADLINE)
    }

    /// Sends SIGTERM and returns the whole standard error. While the process runs, the last lines may not have arrived
    /// yet.
    #[track_caller]
    pub(crate) fn stop_and_tell(mut self) -> String {
        self.wait_for_handler();
        self.terminate();
        assert_eq!(self.wait_for_exit(DEADLINE), 0);
        self.stderr()
    }

    /// Waits until the process handles SIGTERM, or has ended. What a test has waited for may be of its predecessor, whose session is
    /// still ending.
    #[track_caller]
    fn wait_for_handler(&mut self) {
        eventually(DEADLINE, "the process handles SIGTERM", || {
            !self.is_running() || handles_terminate(self.process.id())
        });
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.reap();
    }

    /// Sends SIGSTOP.
    pub(crate) fn pause(&mut self) {
        watcher::pause(&mut self.process);
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self) {
        signal(&mut self.process, "CONT");
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns the maximum of memory that the process has had in use, in bytes (`VmHWM`).
    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Returns whether the process has not exited on its own.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits until it leaves on its own; the exit code. Panics when a signal ended it.
    #[track_caller]
    pub(crate) fn wait_for_exit(&mut self, within: Duration) -> i32 {
        eventually(within, "the relay has left", || !self.is_running());
        let status = self.reap();
        status.code().unwrap_or_else(|| panic!("{status}: {}", self.stderr()))
    }

    /// Returns the standard error that has been captured so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Returns the standard output that has been captured so far.
    pub(crate) fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Waits until a line of standard error contains this; the line.
    /// Waits until the rows of the tables are sent. The slot is active before that.
    #[track_caller]
    pub(crate) fn wait_for_snapshot(&self) {
        self.wait_for_stderr("snapshot sent and acknowledged");
    }

    #[track_caller]
    pub(crate) fn wait_for_stderr(&self, text: &str) -> String {
        eventually_some(DEADLINE, &format!("standard error says {text:?}"), || {
            self.stderr().lines().find(|line| line.contains(text)).map(str::to_owned)
        })
    }

    fn spawn(command: &mut Command, mut watcher: Watcher) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        watcher.watch(&process);
        let stdout = Captured::start(process.stdout.take().unwrap());
        let stderr = Captured::start(process.stderr.take().unwrap());
        Self { process, watcher, stdout, stderr, exit: None }
    }

    /// Waits for the end of the process. After this, its whole output has been captured.
    fn reap(&mut self) -> ExitStatus {
        if let Some(status) = self.exit {
            return status;
        }
        let status = self.process.wait().unwrap();
        self.watcher.release();
        self.stdout.finish();
        self.stderr.finish();
        self.exit = Some(status);
        status
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if self.exit.is_none() {
            self.kill();
        }
        if thread::panicking() {
            eprintln!("the relay said:\n{}", self.stderr());
        }
    }
}

/// Returns whether a process catches SIGTERM, as the kernel has it.
fn handles_terminate(process: u32) -> bool {
    const TERMINATE: u64 = 1 << 14;
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & TERMINATE != 0))
}

fn outboxd(arguments: &[&str]) -> Command {
    without_surroundings(&ours(), arguments)
}

/// Returns the program of this build, unless `OUTBOXD_TEST_PROGRAM` names another one.
pub(crate) fn ours() -> PathBuf {
    std::env::var_os("OUTBOXD_TEST_PROGRAM").map_or_else(|| OURS.into(), PathBuf::from)
}

/// Returns the command of a program without environment variables that it would read as configuration.
fn without_surroundings(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env("NO_COLOR", "1");
    for (name, _) in std::env::vars_os() {
        let foreign = name.to_string_lossy();
        if ["OUTBOXD_", "DEBEZIUM_", "OTEL_", "PG"].iter().any(|prefix| foreign.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command
}

/// Text that has arrived through a pipe so far.
#[derive(Debug)]
pub(crate) struct Captured {
    text: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Captured {
    pub(crate) fn start(pipe: impl Read + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let shared = Arc::clone(&text);
        let reader = thread::spawn(move || {
            let mut pipe = BufReader::new(pipe);
            let mut line = Vec::new();
            while let Ok(some) = pipe.fill_buf().map(<[u8]>::to_vec) {
                if some.is_empty() {
                    break;
                }
                pipe.consume(some.len());
                line.extend(some);
                // A character may come in two pieces; what draws on a screen ends no lines.
                let whole = line.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
                let whole = if whole + 4 > line.len() { whole } else { line.len() };
                lock(&shared).push_str(&String::from_utf8_lossy(&line[..whole]));
                line.drain(..whole);
            }
            lock(&shared).push_str(&String::from_utf8_lossy(&line));
        });
        Self { text, reader: Some(reader) }
    }

    pub(crate) fn text(&self) -> String {
        lock(&self.text).clone()
    }

    pub(super) fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
    }
}

fn lock(text: &Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    text.lock().unwrap_or_else(PoisonError::into_inner)
}
