//! The command line.

mod address;
mod args;
mod ask;
mod assemble;
mod check;
mod cleanup;
mod config;
mod decoding;
#[cfg(feature = "demo")]
mod demo;
mod dlq;
mod explain;
mod failure;
mod health;
mod inbox;
mod init;
mod marks;
mod migrate;
mod notice;
mod progress;
mod registries;
mod relocate;
mod run;
mod shell;
mod signals;
mod slot;
mod spans;
mod sql;
mod status;
mod steps;
mod tail;
mod text;
mod time;
mod top;
mod typed;
mod verify;
mod waiting;

use std::ffi::OsString;

use crate::config::Sources;
use crate::error::{Diagnose, Exit};
use crate::relay::RelayParts;
use args::Command;
use failure::fail;

/// Parses the command line, runs the command, and tells how the process should end.
#[must_use]
pub fn main() -> Exit {
    run_with(std::env::args_os().collect())
}

/// Runs the command of a command line, whose first argument is the program.
#[must_use]
pub fn run_with(command_line: Vec<OsString>) -> Exit {
    // Whoever is first decides whether exit frees what OpenSSL has. librdkafka's threads, which use it to the last, would have it
    // freed, and the process would end by a signal now and then.
    openssl::init();
    let args = match failure::parse(command_line) {
        Ok(args) => args,
        Err(exit) => return exit,
    };
    match args.command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Dlq(args) => dlq::dlq(*args),
        Command::Inbox(args) => inbox::inbox(&args),
        Command::Status(args) => status::status(&args),
        Command::Lag(args) => status::lag(&args),
        Command::Tail(args) => tail::tail(&args),
        Command::Top(args) => top::top(&args),
        Command::Slot(args) => slot::slot(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Cleanup(args) => cleanup::cleanup(&args),
        Command::Init(args) => init::init(*args),
        Command::Migrate(args) => migrate::migrate(&args),
        Command::Move(args) => relocate::relocate(&args),
        Command::Config(args) => config::config(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        #[cfg(feature = "demo")]
        Command::Demo(args) => demo::demo(&args),
        Command::Health(args) => health::health(&args),
    }
}

/// The parts of the relay that `outboxd run` would begin with this configuration.
///
/// # Errors
/// With the exit code when the configuration cannot work; why is said on standard error.
pub fn relay_parts(sources: &Sources) -> Result<RelayParts, Exit> {
    let assembly = assemble::assemble_sources(sources).map_err(|error| fail(&error))?;
    Ok(assembly.parts)
}

/// Talk goes to standard error; a closed one is no reason to fail.
fn say(text: &str) {
    talk(&format!("{text}\n"));
}

/// The same without ending the line.
fn talk(text: &str) {
    use std::io::Write as _;
    drop(write!(std::io::stderr(), "{text}"));
}

/// Data goes to standard output. A reader who has left is no reason to fail.
fn print(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Runs the work of a command that changes nothing half-way: a signal ends it.
///
/// # Errors
/// With the exit code when it was interrupted or has failed; why is said on standard error.
fn asynchronously<T, E: Diagnose>(work: impl Future<Output = Result<T, E>>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
        say(&format!("error: the runtime cannot be started: {error}"));
        Exit::Failed
    })?;
    let outcome = runtime.block_on(async {
        let Ok(mut signals) = signals::Signals::install() else { return Some(work.await) };
        tokio::select! {
            biased;
            () = signals.next() => None,
            outcome = work => Some(outcome),
        }
    });
    // A name that is being looked up, or a person who is asked, holds nothing up.
    runtime.shutdown_background();
    outcome.ok_or(Exit::Interrupted)?.map_err(|error| fail(&error))
}
