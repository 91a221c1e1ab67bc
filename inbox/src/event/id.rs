//! Sources of an event's id.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::{Event, IdScope, Identity};

/// Headers that hold an event's id, of which the first existing one is used: those of Debezium and outboxd, of HTTP, and of
/// CloudEvents.
const HEADERS: [&str; 4] = ["id", "idempotency-key", "ce_id", "message-id"];

/// Header of a CloudEvent's id. It is unique among the events of the same source.
const CLOUD_EVENTS_ID: &str = "ce_id";
/// Header of a CloudEvent's source.
const CLOUD_EVENTS_SOURCE: &str = "ce_source";

/// Maximum length of an id, in bytes. The id is the key of an index, and takes most of the storage of an event.
const ID_BYTES_MAX: usize = 255;
/// Maximum length of the source of a CloudEvent, in bytes. It is part of the index too.
const SOURCE_BYTES_MAX: usize = 1000;

/// Error of reading an event's id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// None of the headers exists.
    #[error("no header holds an id, looked for {}", .looked_for.join(", "))]
    Missing {
        /// Names of the headers.
        looked_for: Vec<String>,
    },
    /// A header exists, and holds no id.
    #[error("the header {header} holds no id: {reason}")]
    Malformed {
        /// Name of the header.
        header: String,
        /// Reason why the value cannot be used.
        reason: &'static str,
    },
    /// The function of the service returned no id.
    #[error("the event has no id")]
    Refused,
    /// The function of the service returned an id that cannot be used.
    #[error("the id function returned no usable id: {reason}")]
    Unusable {
        /// Reason why the value cannot be used.
        reason: &'static str,
    },
    /// The function of the service panicked.
    #[error("the id function panicked")]
    Panicked,
}

/// Function of the service that returns an event's id.
pub type IdFunction = dyn Fn(&Event) -> Option<String> + Send + Sync;

/// Source of an event's id.
#[derive(Clone)]
#[non_exhaustive]
pub enum IdSource {
    /// First existing header of these names.
    Headers(Vec<String>),
    /// Function of the service.
    Function(Arc<IdFunction>),
}

impl Default for IdSource {
    fn default() -> Self {
        Self::Headers(HEADERS.map(str::to_owned).to_vec())
    }
}

impl fmt::Debug for IdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headers(names) => f.debug_tuple("Headers").field(names).finish(),
            Self::Function(_) => f.write_str("Function"),
        }
    }
}

impl IdSource {
    /// Returns the id of an event.
    ///
    /// # Errors
    ///
    /// Fails if the event has no id, or one that cannot be stored, and if the function of the service panics.
    pub fn id(&self, event: &Event) -> Result<String, IdError> {
        let Some((header, value)) = self.header(event)? else { return self.call(event) };
        read(value).map_err(|reason| IdError::Malformed { header: header.to_owned(), reason })
    }

    /// Returns the id of an event with its scope. `topic` is the one that the event was written to first.
    ///
    /// # Errors
    ///
    /// As [`Self::id`], and if the source of a CloudEvent cannot be stored.
    pub(crate) fn identity(
        &self,
        event: &Event,
        scope: IdScope,
        topic: &Arc<str>,
    ) -> Result<Identity, IdError> {
        let id = Arc::from(self.id(event)?);
        let source = match scope {
            IdScope::Consumer => Arc::from(""),
            IdScope::Topic => self.source(event)?.map_or_else(|| Arc::clone(topic), Arc::from),
        };
        Ok(Identity::new(source, id, event))
    }

    /// Returns the source of an event whose id is that of a CloudEvent. `None` for other events.
    fn source(&self, event: &Event) -> Result<Option<String>, IdError> {
        let header = CLOUD_EVENTS_SOURCE;
        match (self.header(event)?, event.headers.last(header)) {
            (Some((CLOUD_EVENTS_ID, _)), Some(value)) => read_text(value)
                .and_then(|source| check(source, SOURCE_BYTES_MAX))
                .map(Some)
                .map_err(|reason| IdError::Malformed { header: header.to_owned(), reason }),
            _ => Ok(None),
        }
    }

    /// Returns the first existing header, or `None` if the id comes from a function.
    fn header<'s, 'e>(&'s self, event: &'e Event) -> Result<Option<(&'s str, &'e [u8])>, IdError> {
        let Self::Headers(names) = self else { return Ok(None) };
        let found = names.iter().find_map(|name| Some((name.as_str(), event.headers.last(name)?)));
        found.map(Some).ok_or_else(|| IdError::Missing { looked_for: names.clone() })
    }

    /// Returns the id from the function of the service. Invariant: it passes the same checks as an id in a header.
    fn call(&self, event: &Event) -> Result<String, IdError> {
        let Self::Function(function) = self else { return Err(IdError::Refused) };
        let id = catch_unwind(AssertUnwindSafe(|| function(event))).map_err(|_| IdError::Panicked)?;
        check(id.ok_or(IdError::Refused)?, ID_BYTES_MAX).map_err(|reason| IdError::Unusable { reason })
    }
}

/// Reads the id in a header: text, or JSON as Debezium Server and Connect's `JsonConverter` write it.
fn read(value: &[u8]) -> Result<String, &'static str> {
    check(read_text(value)?, ID_BYTES_MAX)
}

/// Returns the text if it can be stored in a key, otherwise the reason why it cannot.
fn check(text: String, bytes_max: usize) -> Result<String, &'static str> {
    match text.len() {
        0 => Err("it is empty"),
        _ if text.contains('\0') => Err("it contains a zero byte"),
        length if length > bytes_max => Err("it is too long"),
        _ => Ok(text),
    }
}

/// Reads the text in a header: plain, or JSON.
pub(super) fn read_text(value: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "it is not UTF-8")?;
    match text.as_bytes().first() {
        None => Err("it is empty"),
        Some(b'{' | b'"') => from_json(text).ok_or("it is JSON without a text in it"),
        Some(_) => Ok(text.to_owned()),
    }
}

/// Reads a JSON string, or the one in `{"schema": …, "payload": …}`.
fn from_json(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text).ok()?;
    let payload = match &value {
        Value::Object(envelope) => envelope.get("payload")?,
        other => other,
    };
    payload.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::event;

    /// Names and values of headers.
    type Pairs<'a> = &'a [(&'a str, &'a [u8])];

    #[test]
    fn the_first_header_that_is_there_counts() {
        let source = IdSource::default();
        let cases: [(Pairs<'_>, &str); 6] = [
            (&[("id", b"a-1")], "a-1"),
            (&[("idempotency-key", b"a-2"), ("id", b"a-1")], "a-1"),
            (&[("ce_id", b"a-3")], "a-3"),
            (&[("id", b"old"), ("id", b"new")], "new"),
            (&[("id", br#"{"schema":{"type":"string"},"payload":"a-4"}"#)], "a-4"),
            (&[("id", br#""a-5""#)], "a-5"),
        ];
        for (headers, expected) in cases {
            assert_eq!(source.id(&event(headers)).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn what_holds_no_id_is_an_error_and_never_another_header() {
        let long = vec![b'x'; ID_BYTES_MAX + 1];
        let cases: [&[u8]; 7] =
            [b"", b"\xFF", b"{}", br#"{"payload":7}"#, br#""""#, br#"{"payload":"a\u0000"}"#, &long];
        for value in cases {
            let found = IdSource::default().id(&event(&[("id", value), ("ce_id", &b"other"[..])]));
            assert!(matches!(found, Err(IdError::Malformed { .. })), "{value:?}: {found:?}");
        }
        assert!(matches!(IdSource::default().id(&event::<&[u8]>(&[])), Err(IdError::Missing { .. })));
    }

    #[test]
    fn a_function_returns_the_id() {
        let source = IdSource::Function(Arc::new(|event| Some(format!("{}", event.offset))));
        assert_eq!(source.id(&event::<&[u8]>(&[])).as_deref(), Ok("0"));
        let none = IdSource::Function(Arc::new(|_| None));
        assert_eq!(none.id(&event::<&[u8]>(&[])), Err(IdError::Refused));
    }

    /// Invariant: an id of a function passes the same checks as one in a header, and a panic is a failure of the event.
    #[test]
    fn an_id_of_a_function_is_checked() {
        for wrong in [String::new(), "a\0".to_owned(), "x".repeat(ID_BYTES_MAX + 1)] {
            let source = IdSource::Function(Arc::new(move |_| Some(wrong.clone())));
            let found = source.id(&event::<&[u8]>(&[]));
            assert!(matches!(found, Err(IdError::Unusable { .. })), "{found:?}");
        }
        let panics = IdSource::Function(Arc::new(|event| {
            Some(String::from_utf8(event.value.clone().unwrap()).unwrap())
        }));
        assert_eq!(panics.id(&event::<&[u8]>(&[])), Err(IdError::Panicked));
    }

    #[test]
    fn an_id_is_scoped_by_the_topic_or_by_the_source_of_a_cloud_event() {
        let source = |headers: Pairs<'_>, scope| {
            let identity = IdSource::default().identity(&event(headers), scope, &Arc::from("orders"));
            identity.map(|identity| identity.source.to_string())
        };
        let cloud: Pairs<'_> = &[("ce_id", b"1"), ("ce_source", b"/shop/web")];
        assert_eq!(source(&[("id", b"1")], IdScope::Topic).as_deref(), Ok("orders"));
        assert_eq!(source(&[("ce_id", b"1")], IdScope::Topic).as_deref(), Ok("orders"));
        assert_eq!(source(cloud, IdScope::Topic).as_deref(), Ok("/shop/web"));
        assert_eq!(source(&[("id", b"2"), cloud[0], cloud[1]], IdScope::Topic).as_deref(), Ok("orders"));
        assert_eq!(source(cloud, IdScope::Consumer).as_deref(), Ok(""));
        let empty: Pairs<'_> = &[("ce_id", b"1"), ("ce_source", b"")];
        assert!(matches!(source(empty, IdScope::Topic), Err(IdError::Malformed { .. })));
    }
}
