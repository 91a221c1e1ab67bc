//! The command line.

mod args;
mod assemble;
mod check;
#[cfg(feature = "demo")]
mod demo;
mod dlq;
mod health;
mod progress;
mod run;
mod signals;
mod verify;

use clap::Parser as _;

use crate::config::Sources;
use crate::error::{Diagnose, Exit, report};
use crate::relay::RelayParts;
use args::{Args, Command};

/// Parses the command line, runs the command, and tells how the process should end.
#[must_use]
pub fn main() -> Exit {
    // Whoever is first decides whether exit frees what OpenSSL has. librdkafka's threads, which use it to the last, would have it
    // freed, and the process would end by a signal now and then.
    openssl::init();
    match Args::parse().command {
        Command::Run(args) => run::run(&args),
        Command::Check(args) => check::check(&args),
        Command::Verify(args) => verify::verify(&args),
        Command::Dlq(args) => dlq::dlq(*args),
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

/// Says on standard error what went wrong and how to cure it.
fn fail(error: &dyn Diagnose) -> Exit {
    say(&report(error));
    error.exit()
}

/// Talk goes to standard error; a closed one is no reason to fail.
fn say(text: &str) {
    use std::io::Write as _;
    drop(writeln!(std::io::stderr(), "{text}"));
}
