//! Keys of records.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Maximum length of a scope or a key, in bytes: both are columns of an index.
const BYTES_MAX: usize = 255;

/// Key of a record: a scope, and a name that is unique in it.
///
/// The scope separates services, and the callers of one service: the same name of two callers refers to two records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    scope: Arc<str>,
    name: Arc<str>,
}

/// Reason why a text cannot be a scope or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is empty.
    #[error("it is empty")]
    Empty,
    /// The text is longer than 255 bytes and does not fit into an index.
    #[error("it is longer than {BYTES_MAX} bytes")]
    TooLong,
    /// The text contains a control character.
    #[error("it holds a control character")]
    Control,
}

impl Key {
    /// Creates a key with this name in this scope.
    ///
    /// # Errors
    ///
    /// When one of them is empty, is longer than 255 bytes, or contains a control character.
    pub fn new(scope: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Result<Self, KeyError> {
        let (scope, name) = (scope.into(), name.into());
        check(&scope)?;
        check(&name)?;
        Ok(Self { scope, name })
    }

    /// Returns the scope of the key.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// Returns the name of the key within its scope.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn check(text: &str) -> Result<(), KeyError> {
    match text.len() {
        0 => Err(KeyError::Empty),
        _ if text.chars().any(char::is_control) => Err(KeyError::Control),
        1..=BYTES_MAX => Ok(()),
        _ => Err(KeyError::TooLong),
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.name, self.scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_index_cannot_hold_is_refused() {
        let long = "x".repeat(BYTES_MAX + 1);
        let cases = [("", KeyError::Empty), ("a\0", KeyError::Control), (&long, KeyError::TooLong)];
        for (text, error) in cases {
            assert_eq!(Key::new("scope", text), Err(error));
            assert_eq!(Key::new(text, "key"), Err(error));
        }
        let key = Key::new("payments", "ö-1").unwrap();
        assert_eq!((key.scope(), key.name()), ("payments", "ö-1"));
    }
}
