use std::io::Write as _;
use std::num::NonZeroU16;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::relay::Captured;
use super::wait::{DEADLINE, eventually};
use super::watcher::Watcher;

const ROWS: NonZeroU16 = NonZeroU16::new(40).unwrap();
/// Number of columns with which no line is cut.
const COLUMNS: NonZeroU16 = NonZeroU16::new(300).unwrap();

/// outboxd on a terminal of its own, which util-linux' `script` makes.
#[derive(Debug)]
pub(crate) struct Terminal {
    process: Child,
    keys: ChildStdin,
    screen: Captured,
    watcher: Watcher,
}

impl Terminal {
    /// Runs `outboxd` with these arguments. None of them has blanks or anything that a shell knows.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_behind("", arguments)
    }

    /// Runs `outboxd` after another command of the shell.
    pub(crate) fn start_behind(before: &str, arguments: &[&str]) -> Self {
        let program = env!("CARGO_BIN_EXE_outboxd");
        let typed =
            format!("{before} stty rows {ROWS} cols {COLUMNS}; exec {program} {}", arguments.join(" "));
        let mut command = Command::new("script");
        command.args(["--quiet", "--return", "--flush", "--command", &typed, "/dev/null"]);
        command.env("TERM", "xterm").env_remove("OUTBOXD_HTTP");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().expect("script, of util-linux");
        let mut watcher = Watcher::new("outboxd-terminal-");
        watcher.watch(&process);
        let keys = process.stdin.take().unwrap();
        let screen = Captured::start(process.stdout.take().unwrap());
        Self { process, keys, screen, watcher }
    }

    /// Waits until these words are on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &str) {
        eventually(DEADLINE, &format!("{words} is on the screen: {}", self.screen.text()), || {
            self.screen.text().contains(words)
        });
    }

    /// Returns the current text of the screen.
    pub(crate) fn screen(&self) -> String {
        let mut parser = vt100::Parser::new(ROWS, COLUMNS, 0);
        parser.process(self.screen.text().as_bytes());
        parser.screen().contents()
    }

    /// Ends the terminal as when its window is closed.
    pub(crate) fn hang_up(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.watcher.release();
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Waits for the end; the exit code, and what was on the screen.
    #[track_caller]
    pub(crate) fn wait_for_exit(mut self) -> (Option<i32>, String) {
        eventually(DEADLINE, "it has left", || self.process.try_wait().unwrap().is_some());
        let status = self.process.wait().unwrap();
        self.watcher.release();
        self.screen.finish();
        (status.code(), self.screen.text())
    }
}
