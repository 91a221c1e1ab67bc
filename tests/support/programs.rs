//! The programs that the tests start, and the Debian packages that have them.

use std::io::Error;
use std::process::{Child, Command};

const PACKAGES: [(&str, &str); 7] = [
    ("chromedriver", "chromium-driver"),
    ("java", "default-jre-headless"),
    ("keytool", "default-jre-headless"),
    ("mvn", "maven"),
    ("prometheus", "prometheus"),
    ("promtool", "prometheus"),
    ("redis-server", "redis-server"),
];

/// Starts a program; panics with the name of its package if it cannot be started.
#[track_caller]
pub(crate) fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap_or_else(|error| panic!("{}", reason(command, &error)))
}

/// Returns why a program cannot be run, with the command that installs it.
pub(crate) fn reason(command: &Command, error: &Error) -> String {
    let program = command.get_program().display();
    let package = PACKAGES.iter().find(|(name, _)| command.get_program() == *name);
    match package {
        Some((_, package)) => format!("cannot run {program}: {error}; fix: apt-get install {package}"),
        None => format!("cannot run {program}: {error}"),
    }
}
