//! Errors of handlers.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::core::FailureKind;
use crate::postgres::{is_conflict, is_read_only};

/// Error of a handler. `?` converts any error into one, including an `anyhow::Error` or a text, and the event is retried.
pub struct Failure {
    kind: FailureKind,
    source: Box<dyn Error + Send + Sync>,
}

impl Failure {
    /// Returns a failure after which the event is retried.
    pub fn retry(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: FailureKind::Retry, source: source.into() }
    }

    /// Returns the failure of an event that is itself invalid: it becomes a dead letter at once.
    pub fn poison(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: FailureKind::Poison, source: source.into() }
    }

    /// Returns the failure of a handler that panicked: this version of the service cannot handle the event.
    pub(super) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::poison(format!("the handler panicked: {}", text.unwrap_or("(no message)")))
    }

    pub(super) fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Reports whether PostgreSQL has ended the transaction to resolve a conflict with another one.
    pub(super) fn is_conflict(&self) -> bool {
        self.any(is_conflict)
    }

    /// Reports whether a database was read-only.
    pub(super) fn is_read_only(&self) -> bool {
        self.any(is_read_only)
    }

    fn any(&self, is_it: fn(&(dyn Error + 'static)) -> bool) -> bool {
        let first: &(dyn Error + 'static) = &*self.source;
        std::iter::once(first).chain(causes(first)).any(is_it)
    }

    /// Returns the error and its causes on one line.
    pub(crate) fn chain(&self) -> String {
        chain(&*self.source)
    }
}

/// Returns an error and its causes on one line.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'e (dyn Error + 'static)| (*cause).source())
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("kind", &self.kind).field("source", &self.source).finish()
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn read(text: &str) -> anyhow::Result<u8> {
        text.parse::<u8>().context("cannot read a number")
    }

    fn handle(text: &str) -> Result<(), Failure> {
        if text.is_empty() {
            Err("the text is empty")?;
        }
        read(text)?;
        Ok(())
    }

    #[test]
    fn errors_of_anyhow_and_texts_become_failures() {
        assert!(handle("1").is_ok());
        let failed = |text| handle(text).unwrap_err();
        assert_eq!(failed("x").chain(), "cannot read a number: invalid digit found in string");
        assert_eq!(failed("").chain(), "the text is empty");
        assert_eq!(failed("").kind(), FailureKind::Retry);
        let poison: Result<u8, Failure> = read("x").map_err(Failure::poison);
        assert_eq!(poison.unwrap_err().kind(), FailureKind::Poison);
    }
}
