//! The shell that runs the throwaway server.

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::StopMode;
use super::account::Account;

const SCRIPT: &str = include_str!("keeper.sh");
/// Environment of the programs, without that of this process: a PGDATA or PGPORT of the user's would change
/// what they do.
const ENVIRONMENT: [(&str, &str); 2] = [("LC_ALL", "C"), ("PATH", "/usr/local/bin:/usr/bin:/bin")];
/// `keeper.sh`'s unit of waiting.
const TICK_MS: u128 = 50;

/// A shell that runs the server for us, and that outlives us just long enough to remove it.
#[derive(Debug)]
pub(super) struct ServerShell {
    process: Child,
    /// `None` once the last order is given.
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// One line to the keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Initdb,
    Start { port: u16, attempt_count_max: u32 },
    Stop { mode: StopMode, within: Duration },
    Kill,
}

impl ServerShell {
    /// Starts the keeper, which owns `folder` from here on.
    pub(super) fn spawn(
        programs: &Path,
        folder: &Path,
        account: Account,
        initdb_arguments: &[String],
    ) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "keeper"]).args([programs, folder]).args(initdb_arguments);
        command.env_clear().envs(ENVIRONMENT).current_dir("/");
        // Its own process group: an interrupt typed at the terminal is ours to handle, the server goes after us.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        account.lend_to(&mut command);
        let mut process = command.spawn()?;
        let (Some(orders), Some(answers)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(Self { process, orders: Some(orders), answers: BufReader::new(answers) })
    }

    /// Gives an order and waits for its answer: whether it succeeded.
    pub(super) fn give(&mut self, order: Order) -> io::Result<bool> {
        let orders = self.orders.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(orders, "{order}")?;
        let mut answer = String::new();
        match self.answers.read_line(&mut answer)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(answer.trim_end() == "ok"),
        }
    }
}

impl Drop for ServerShell {
    fn drop(&mut self) {
        self.orders = None;
        if let Err(error) = self.process.wait() {
            tracing::warn!(error = %error, "did not wait for the throwaway PostgreSQL");
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Initdb => f.write_str("initdb"),
            Self::Start { port, attempt_count_max } => write!(f, "start {port} {attempt_count_max}"),
            Self::Stop { mode, within } => {
                write!(f, "stop {} {}", mode.signal(), within.as_millis().div_ceil(TICK_MS))
            }
            Self::Kill => f.write_str("kill"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_the_words_of_the_script() {
        let cases = [
            (Order::Initdb, "initdb"),
            (Order::Start { port: 5432, attempt_count_max: 3 }, "start 5432 3"),
            (Order::Stop { mode: StopMode::Fast, within: Duration::from_millis(120) }, "stop INT 3"),
            (Order::Stop { mode: StopMode::Immediate, within: Duration::from_secs(1) }, "stop QUIT 20"),
            (Order::Kill, "kill"),
        ];
        for (order, line) in cases {
            assert_eq!(order.to_string(), line);
        }
    }
}
