//! Changed events in a report.

use serde::Serialize;
use serde_json::Value;

use crate::cli::change::inbox::parked::Parked;
use crate::cli::shell::text::{clean, object, shown};

/// Something that was changed, or would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Changed {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) at: Option<String>,
    #[serde(skip_serializing_if = "Value::is_null")]
    pub(super) key: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) number: Option<i64>,
    /// The position of the event that was sent again and replaces this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replaced_by: Option<String>,
    #[serde(skip)]
    pub(super) shown_key: Option<String>,
}

impl Changed {
    pub(super) fn event(event: &Parked) -> Self {
        Self {
            at: Some(event.place.to_string()),
            id: event.id(),
            number: event.number,
            ..Self::with_key(event.key())
        }
    }

    /// Makes it of a key alone.
    pub(super) fn with_key(key: Option<&[u8]>) -> Self {
        Self {
            at: None,
            key: object(key),
            id: None,
            source: None,
            number: None,
            replaced_by: None,
            shown_key: key.map(|key| shown(Some(key))),
        }
    }

    /// Returns the line of a text.
    pub(super) fn line(&self) -> String {
        let number = self.number.map(|number| number.to_string());
        let parts = [
            ("", self.at.as_deref()),
            ("key ", self.shown_key.as_deref()),
            ("number ", number.as_deref()),
            ("id ", self.id.as_deref()),
            ("source ", self.source.as_deref()),
            ("replaced by ", self.replaced_by.as_deref()),
        ];
        let parts = parts.iter().filter_map(|(name, text)| Some(format!("{name}{}", clean((*text)?))));
        format!("  {}\n", parts.collect::<Vec<_>>().join("  "))
    }
}
