use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// The longest key, in bytes. It is the key of an index.
const BYTES_MAX: usize = 255;

/// What a record is kept under: a scope, and a key that is unique in it.
///
/// The scope keeps services, and the callers of one service, apart: the same key of two callers is two records.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    scope: Arc<str>,
    name: Arc<str>,
}

/// Why a text cannot be a scope or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is nothing in it.
    #[error("it is empty")]
    Empty,
    /// It does not fit into an index.
    #[error("it is longer than {BYTES_MAX} bytes")]
    TooLong,
    /// It holds a control character.
    #[error("it holds a control character")]
    Control,
}

impl Key {
    /// This key in this scope.
    ///
    /// # Errors
    ///
    /// When one of them is empty, is longer than 255 bytes, or holds a control character.
    pub fn new(scope: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Result<Self, KeyError> {
        let (scope, name) = (scope.into(), name.into());
        check(&scope)?;
        check(&name)?;
        Ok(Self { scope, name })
    }

    /// Whose key it is.
    #[must_use]
    pub fn scope(&self) -> &str {
        &self.scope
    }

    /// The key itself.
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
