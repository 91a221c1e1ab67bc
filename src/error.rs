//! Meaning of a failure: whether a retry can help, the exit code of the process, and the fix.

mod commands;

use std::error::Error;

pub(crate) use commands::{FILE, in_commands, remember_configuration};

use change_events::outbox::{BindError, MessageError, RouteError};
use connect_data::OptionError;
#[cfg(not(feature = "parquet"))]
pub(crate) use connect_data::error::not_built;
pub(crate) use connect_data::error::{causes, chain};
use connect_data::transform::error::TransformError;

/// The class of an error: it decides whether trying again can help.
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
    /// The replication slot is gone or invalidated, or it is not where outboxd left it: rows may be missing.
    SlotLost = 7,
    /// A second signal aborted the drain.
    Interrupted = 130,
}

impl Class {
    /// Returns the name for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Definite => "definite",
            Self::Config => "configuration",
        }
    }
}

impl Exit {
    /// Returns the number for the operating system.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// An error with a class, an exit code and a fix.
///
/// The `Display` text names what failed, in the user's names, and where; [`Error::source`] is the reason.
pub trait Diagnose: Error {
    /// Returns class, exit code and fix together.
    fn diagnosis(&self) -> Diagnosis;

    /// Returns the class, which decides whether a retry can help.
    fn class(&self) -> Class {
        self.diagnosis().class
    }

    /// Returns the exit code when the process gives up on this error.
    fn exit(&self) -> Exit {
        self.diagnosis().exit
    }

    /// Returns the fix, as sentences or as a command that can be copied.
    fn fix(&self) -> Option<String> {
        self.diagnosis().fix
    }
}

/// Class, exit code and fix of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Diagnosis {
    /// Class, which decides whether a retry can help.
    pub class: Class,
    /// Exit code when the process gives up on the error.
    pub exit: Exit,
    /// Sentences, or a command that can be copied.
    pub fix: Option<String>,
}

impl Diagnosis {
    /// Makes the diagnosis of a failure after which the same attempt may succeed.
    pub const fn transient(exit: Exit) -> Self {
        Self { class: Class::Transient, exit, fix: None }
    }

    /// Makes the diagnosis of a failure that lasts until the operator acts.
    pub const fn definite(exit: Exit) -> Self {
        Self { class: Class::Definite, exit, fix: None }
    }

    /// Makes the diagnosis of a mistake in the configuration or on the command line.
    pub const fn config() -> Self {
        Self { class: Class::Config, exit: Exit::Usage, fix: None }
    }

    /// Adds the fix. Its commands name the configuration of this process.
    pub fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(in_commands(fix)), ..self }
    }

    /// Adds the fix, if there is one.
    pub fn with_optional_fix(self, fix: Option<String>) -> Self {
        Self { fix: fix.map(in_commands), ..self }
    }
}

impl Diagnose for OptionError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::config()
    }
}

impl Diagnose for TransformError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::definite(Exit::Failed)
    }
}

impl Diagnose for BindError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::definite(Exit::Precondition).with_optional_fix(self.fix())
    }
}

impl Diagnose for RouteError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::definite(Exit::Row).with_optional_fix(self.fix())
    }
}

impl Diagnose for MessageError {
    fn diagnosis(&self) -> Diagnosis {
        Diagnosis::definite(Exit::Row).with_optional_fix(self.fix())
    }
}

/// Formats the error, its causes and its fix for a person.
#[must_use]
pub fn report(error: &dyn Diagnose) -> String {
    let mut text = format!("error: {error}");
    for cause in causes(error) {
        text.push_str(&format!("\n  because: {cause}"));
    }
    if let Some(fix) = error.fix() {
        text.push_str("\n  to fix: ");
        text.push_str(&fix.replace('\n', "\n          "));
    }
    text
}
