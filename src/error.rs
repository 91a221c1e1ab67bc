//! Meaning of a failure: whether a retry can help, the exit code of the process, and the fix.

use std::error::Error;

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
    /// Returns the class, which decides whether a retry can help.
    fn class(&self) -> Class;

    /// Returns the exit code when the process gives up on this error.
    fn exit(&self) -> Exit {
        match self.class() {
            Class::Config => Exit::Usage,
            Class::Transient | Class::Definite => Exit::Failed,
        }
    }

    /// Returns the fix, as sentences or as a command that can be copied.
    fn cure(&self) -> Option<String> {
        None
    }
}

impl Diagnose for OptionError {
    fn class(&self) -> Class {
        Class::Config
    }
}

impl Diagnose for TransformError {
    fn class(&self) -> Class {
        Class::Definite
    }
}

impl Diagnose for BindError {
    fn class(&self) -> Class {
        Class::Definite
    }

    fn exit(&self) -> Exit {
        Exit::Precondition
    }

    fn cure(&self) -> Option<String> {
        self.fix()
    }
}

impl Diagnose for RouteError {
    fn class(&self) -> Class {
        Class::Definite
    }

    fn exit(&self) -> Exit {
        Exit::Row
    }

    fn cure(&self) -> Option<String> {
        self.fix()
    }
}

impl Diagnose for MessageError {
    fn class(&self) -> Class {
        Class::Definite
    }

    fn exit(&self) -> Exit {
        Exit::Row
    }

    fn cure(&self) -> Option<String> {
        self.fix()
    }
}

/// Formats the error, its causes and its fix for a person.
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
