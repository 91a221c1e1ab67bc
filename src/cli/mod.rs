//! The command line.

mod args;
mod change;
#[cfg(feature = "demo")]
mod demo;
mod failure;
mod inspect;
mod prove;
mod run;
mod shell;

use std::ffi::OsString;

use crate::config::Sources;
use crate::error::{Diagnose, Exit};
use crate::relay::RelayParts;
use args::Command;
use failure::fail;

/// Parses the command line, runs the command, and returns how the process should end.
#[must_use]
pub fn main() -> Exit {
    run_with(std::env::args_os().collect())
}

/// Runs the command of a command line, whose first argument is the program.
#[must_use]
pub fn run_with(command_line: Vec<OsString>) -> Exit {
    // The first caller decides whether exit frees what OpenSSL has. librdkafka's threads, which use it to the
    // last, would have it freed, and the process would end by a signal now and then.
    openssl::init();
    let args = match failure::parse(command_line) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => prove::check::check(&args),
        Command::Verify(args) => prove::verify::verify(&args),
        Command::Dlq(args) => change::dlq::dlq(*args),
        Command::Inbox(args) => change::inbox::inbox(&args),
        Command::Status(args) => inspect::status::status(&args),
        Command::Lag(args) => inspect::status::lag(&args),
        Command::Tail(args) => inspect::tail::tail(&args),
        Command::Top(args) => inspect::top::top(&args),
        Command::Signal(args) => change::signal::signal(&args),
        Command::Slot(args) => change::slot::slot(&args),
        Command::Explain(args) => inspect::explain::explain(&args),
        Command::Cleanup(args) => change::cleanup::cleanup(&args),
        Command::Init(args) => change::init::init(*args),
        Command::Migrate(args) => change::migrate::migrate(&args),
        Command::Move(args) => change::relocate::relocate(&args),
        Command::Config(args) => inspect::config::config(&args),
        Command::Debug(args) => inspect::debug::debug(&args),
        Command::Completions(args) => shell::completions::completions(&args),
        Command::Man(args) => shell::completions::man(&args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::demo(&args),
        Command::Health(args) => inspect::health::health(&args),
    }
}

/// Returns the parts of the relay that `outboxd run` would begin with this configuration.
///
/// # Errors
///
/// With the exit code when the configuration cannot work; the reason is printed on standard error.
pub fn relay_parts(sources: &Sources) -> Result<RelayParts, Exit> {
    let assembly = run::assemble::assemble_sources(sources).map_err(|error| fail(&error))?;
    Ok(assembly.parts)
}

/// Prints a message to standard error; a closed one is no reason to fail.
fn print_message(text: &str) {
    print_text(&format!("{text}\n"));
}

/// Prints a message without ending the line.
fn print_text(text: &str) {
    use std::io::Write as _;
    drop(write!(std::io::stderr(), "{text}"));
}

/// Prints data to standard output. A reader that has left is no reason to fail.
fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Runs the work of a command that changes nothing half-way: a signal ends it.
///
/// # Errors
///
/// With the exit code when it was interrupted or has failed; the reason is printed on standard error.
fn asynchronously<T, E: Diagnose>(work: impl Future<Output = Result<T, E>>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        print_message(&format!("error: the runtime cannot be started: {error}"));
        Exit::Failed
    })?;
    let outcome = runtime.block_on(async {
        let Ok(mut signals) = shell::signals::Signals::install() else { return Some(work.await) };
        tokio::select! {
            biased;
            () = signals.next() => None,
            outcome = work => Some(outcome),
        }
    });
    // A name that is being resolved, or a pending prompt, does not delay the end.
    runtime.shutdown_background();
    outcome.ok_or(Exit::Interrupted)?.map_err(|error| fail(&error))
}
