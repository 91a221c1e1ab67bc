//! Notices that are reported once, although nothing is wrong.

use std::fmt;

/// An assumption of outboxd, or a key that it does not use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    /// Kind of the notice.
    pub kind: NoticeKind,
    /// Keys that the notice concerns, as the user wrote them or would write them.
    pub keys: Vec<String>,
    /// Text, without a final stop.
    pub text: String,
}

/// Kind of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// Value that is used because none is set.
    Default,
    /// Value that is used instead of a set one, which cannot work or is named otherwise.
    Assumption,
    /// Key that outboxd does not use.
    Ignored,
}

impl Notice {
    pub(super) fn default_value(key: &str, text: impl Into<String>) -> Self {
        Self { kind: NoticeKind::Default, keys: vec![key.to_owned()], text: text.into() }
    }

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
            NoticeKind::Default | NoticeKind::Assumption => {
                write!(f, "{}: {}", self.keys.join(", "), self.text)
            }
            NoticeKind::Ignored => write!(f, "not used: {}: {}", self.keys.join(", "), self.text),
        }
    }
}
