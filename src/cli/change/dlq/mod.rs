//! `outboxd dlq`: dead letters of any service. `ls`, `show` and `export` only read; `replay` and `discard`
//! settle.
//!
//! ```text
//! dead-letter topic ─▶ index ─▶ plan ─▶ settle ─┬─▶ the topics they came from ┐ one Kafka
//! state topic ─▶ states ──┘     (order, holds)  └─▶ the state topic           ┘ transaction
//! ```
//!
//! The headers are parsed by [`outboxd_inbox::dead_letter`].

mod args;
mod error;
mod export;
mod filter;
mod index;
mod letter;
mod ls;
mod object;
mod place;
mod plan;
mod report;
mod settle;
mod show;
mod source;
mod state;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::cli::shell::progress::Progress;
use crate::cli::shell::signals::Signals;
use crate::cli::{fail, print_message};
use crate::error::Exit;
use crate::telemetry::{LogOptions, Logs, StatusLine};
pub(in crate::cli) use args::DlqArgs;
use args::{AuditArgs, DlqCommand};
use error::DlqError;
use source::Source;

/// Time that the brokers may take to create a topic.
const MAKE_PATIENCE: Duration = Duration::from_secs(15);

/// Longest wait at the end for threads that still wait for a server.
const FAREWELL: Duration = Duration::from_millis(500);

/// Inputs of every command.
struct Context {
    source: Source,
    stop: CancellationToken,
    progress: Progress,
}

/// Runs `outboxd dlq`.
pub(in crate::cli) fn dlq(args: DlqArgs) -> Exit {
    let command = args.command;
    let source = match Source::new(command.source()) {
        Ok(source) => source,
        Err(error) => return fail(&error),
    };
    let logs = match command.audit().map(start_logs).transpose() {
        Ok(logs) => logs,
        Err(exit) => return exit,
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_message(&format!("error: the runtime cannot be started: {error}"));
            return Exit::Failed;
        }
    };
    let progress = if command.has_bar() { Progress::new() } else { Progress::hidden() };
    let context = Context { source, stop: CancellationToken::new(), progress: progress.clone() };
    let outcome = runtime.block_on(until_signalled(command, context));
    progress.end();
    runtime.shutdown_timeout(FAREWELL);
    drop(logs);
    outcome.unwrap_or_else(|error| fail(&error))
}

/// Runs a command until a signal. The first signal lets the open transaction complete, so that it hides
/// nothing from consumers.
async fn until_signalled(command: DlqCommand, context: Context) -> Result<Exit, DlqError> {
    if command.settles() {
        context.source.make_state_topic(MAKE_PATIENCE).await?;
    }
    let stop = context.stop.clone();
    let mut working = tokio::task::spawn_blocking(move || command.run(&context));
    let Ok(mut signals) = Signals::install() else { return working.await.unwrap_or(Err(DlqError::Aborted)) };
    tokio::select! {
        biased;
        outcome = &mut working => return outcome.unwrap_or(Err(DlqError::Aborted)),
        () = signals.next() => stop.cancel(),
    }
    tokio::select! {
        biased;
        outcome = working => outcome.unwrap_or(Err(DlqError::Aborted))?,
        () = signals.next() => Exit::Interrupted,
    };
    Ok(Exit::Interrupted)
}

impl DlqCommand {
    fn run(self, context: &Context) -> Result<Exit, DlqError> {
        match self {
            Self::Ls(args) => ls::ls(&args, context),
            Self::Show(args) => show::show(&args, context),
            Self::Replay(args) => settle::replay(&args, context),
            Self::Discard(args) => settle::discard(&args, context),
            Self::Export(args) => export::export(&args, context),
        }
    }

    /// Returns whether it changes anything.
    const fn settles(&self) -> bool {
        match self {
            Self::Replay(args) => args.execute,
            Self::Discard(args) => args.yes,
            Self::Ls(_) | Self::Show(_) | Self::Export(_) => false,
        }
    }

    const fn audit(&self) -> Option<&AuditArgs> {
        match self {
            Self::Replay(args) if args.execute => Some(&args.audit),
            Self::Discard(args) if args.yes => Some(&args.audit),
            _ => None,
        }
    }

    /// Returns whether there is a bar: it and log lines would write over each other.
    fn has_bar(&self) -> bool {
        self.audit().is_none_or(|audit| audit.log.is_none())
    }
}

/// Starts the logs. On a terminal the lines about each dead letter are omitted, unless a format is named.
fn start_logs(args: &AuditArgs) -> Result<Logs, Exit> {
    let mut options = LogOptions::from_env(args.log);
    if args.log.is_none() && io::stderr().is_terminal() {
        "warn".clone_into(&mut options.filter);
    }
    Logs::start(&options, &StatusLine::hidden()).map_err(|error| fail(&error))
}

impl Context {
    fn is_interrupted(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Prints to stdout. A reader that has left is no reason to fail.
    fn print(&self, text: &str) {
        self.progress.end();
        let mut out = io::stdout().lock();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    }
}
