//! What a failure means: whether a retry can help, which exit code it ends the process with, and what cures it.

use std::error::Error;

/// Whether trying again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The same attempt may succeed later: a server restarts, a network heals.
    Transient,
    /// The same attempt fails for ever; a person must act.
    Definite,
    /// The configuration must change.
    Config,
}

/// The exit codes of the process, fixed by the command-line contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done, drained and confirmed.
    Ok = 0,
    /// Failed for a reason that has no code of its own.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// PostgreSQL or Kafka is not prepared for us (`wal_level`, a missing table, an occupied slot).
    Precondition = 3,
    /// PostgreSQL cannot be reached or refuses the login.
    PostgresUnreachable = 4,
    /// Kafka cannot be reached or refuses the login.
    KafkaUnreachable = 5,
    /// A row cannot be routed, converted or sent.
    Row = 6,
    /// The replication slot is gone or invalidated.
    SlotLost = 7,
    /// A second signal aborted the drain.
    Interrupted = 130,
}

impl Exit {
    /// The number the operating system sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// Returns why something cannot be used in a build without the cargo feature that has it.
#[cfg(not(all(feature = "cel", feature = "parquet", feature = "protobuf")))]
pub(crate) fn not_built(what: &str, feature: &str) -> String {
    format!(
        "this build has no {what}; the image of outboxd has it, and so has cargo build --release --features {feature}"
    )
}

/// An error that can say what it means and what to type to cure it.
///
/// The `Display` text says what failed, in the user's names, and where; [`Error::source`] says why.
pub trait Diagnose: Error {
    /// Whether a retry can help.
    fn class(&self) -> Class;

    /// The exit code when the process gives up on this error.
    fn exit(&self) -> Exit {
        match self.class() {
            Class::Config => Exit::Usage,
            Class::Transient | Class::Definite => Exit::Failed,
        }
    }

    /// What to run or to set, as sentences or as a command that can be copied.
    fn cure(&self) -> Option<String> {
        None
    }
}

/// The error, its causes and its cure, as a person reads them.
#[must_use]
pub fn report(error: &dyn Diagnose) -> String {
    let mut text = format!("error: {error}");
    for cause in causes(error) {
        text.push_str(&format!("\n  because: {cause}"));
    }
    if let Some(cure) = error.cure() {
        text.push_str("\n  to fix: ");
        text.push_str(&cure.replace('\n', "\n          "));
    }
    text
}

/// The causes of an error, the nearest first.
pub(crate) fn causes<'e>(error: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'e (dyn Error + 'static)| (*cause).source())
}

/// The error and its causes on one line.
#[must_use]
pub(crate) fn chain(error: &dyn Error) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
