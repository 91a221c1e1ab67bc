//! What a user should be told once, although nothing is wrong.

use std::fmt;

/// Something that was assumed, or a key that is not acted upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Why it is told.
    pub kind: NoticeKind,
    /// The keys it is about, as the user wrote them, or as they would be written.
    pub keys: Vec<String>,
    /// The sentence, without its stop.
    pub text: String,
}

/// Why a notice is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// Nothing was said, or something that cannot work for an outbox, and this was taken.
    Assumption,
    /// Debezium has this key, and we do not act on it.
    Ignored,
}

impl Notice {
    pub(super) fn assumption(key: &str, text: impl Into<String>) -> Self {
        Self { kind: NoticeKind::Assumption, keys: vec![key.to_owned()], text: text.into() }
    }

    pub(super) fn ignored(key: &str, text: impl Into<String>) -> Self {
        Self { kind: NoticeKind::Ignored, keys: vec![key.to_owned()], text: text.into() }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            NoticeKind::Assumption => write!(f, "{}: {}", self.keys.join(", "), self.text),
            NoticeKind::Ignored => write!(f, "not used: {}: {}", self.keys.join(", "), self.text),
        }
    }
}
