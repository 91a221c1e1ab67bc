use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::{Event, IdScope, Identity};

/// The headers that hold an event's id, the first that is there counts: those of Debezium and outboxd, of HTTP, and of
/// CloudEvents.
const HEADERS: [&str; 4] = ["id", "idempotency-key", "ce_id", "message-id"];

/// The header of a CloudEvent's id. It is unique among the events of the same source.
const CLOUD_EVENTS_ID: &str = "ce_id";
/// The header of a CloudEvent's source.
const CLOUD_EVENTS_SOURCE: &str = "ce_source";

/// The longest id, in bytes. It is the key of an index, and what one event costs to remember.
const ID_BYTES_MAX: usize = 255;
/// The same for the source of a CloudEvent, which is part of the index too.
const SOURCE_BYTES_MAX: usize = 1000;

/// Why an event has no id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// None of the headers is there.
    #[error("no header holds an id, looked for {}", .looked_for.join(", "))]
    Missing {
        /// The names.
        looked_for: Vec<String>,
    },
    /// A header is there, and holds none.
    #[error("the header {header} holds no id: {reason}")]
    Malformed {
        /// Its name.
        header: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The service's own function found none.
    #[error("the event has no id")]
    Refused,
    /// The service's own function returned one that cannot be used.
    #[error("the id function returned no usable id: {reason}")]
    Unusable {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The service's own function panicked.
    #[error("the id function panicked")]
    Panicked,
}

/// A function of the service that tells an event's id.
pub type IdFunction = dyn Fn(&Event) -> Option<String> + Send + Sync;

/// Where the id of an event is found.
#[derive(Clone)]
#[non_exhaustive]
pub enum IdSource {
    /// In the first of these headers that is there.
    Headers(Vec<String>),
    /// Told by a function of the service.
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
    /// The id of an event.
    ///
    /// # Errors
    ///
    /// When it has none, or one that cannot be stored, and when the function of the service panics.
    pub fn id(&self, event: &Event) -> Result<String, IdError> {
        let Some((header, value)) = self.header(event)? else { return self.call(event) };
        read(value).map_err(|reason| IdError::Malformed { header: header.to_owned(), reason })
    }

    /// The id of an event with its scope. `topic` is the one that the event was written to first.
    ///
    /// # Errors
    ///
    /// As [`Self::id`], and when the source of a CloudEvent cannot be stored.
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

    /// The source of an event whose id is that of a CloudEvent.
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

    /// The first header that exists, unless the id comes from a function.
    fn header<'s, 'e>(&'s self, event: &'e Event) -> Result<Option<(&'s str, &'e [u8])>, IdError> {
        let Self::Headers(names) = self else { return Ok(None) };
        let found = names.iter().find_map(|name| Some((name.as_str(), event.headers.last(name)?)));
        found.map(Some).ok_or_else(|| IdError::Missing { looked_for: names.clone() })
    }

    /// The id that the function of the service returns. Invariant: it obeys the same checks as one in a header.
    fn call(&self, event: &Event) -> Result<String, IdError> {
        let Self::Function(function) = self else { return Err(IdError::Refused) };
        let id = catch_unwind(AssertUnwindSafe(|| function(event))).map_err(|_| IdError::Panicked)?;
        check(id.ok_or(IdError::Refused)?, ID_BYTES_MAX).map_err(|reason| IdError::Unusable { reason })
    }
}

/// The id in a header: text, or JSON as Debezium Server and Connect's `JsonConverter` write it.
fn read(value: &[u8]) -> Result<String, &'static str> {
    check(read_text(value)?, ID_BYTES_MAX)
}

/// Returns a text that can be stored in a key.
fn check(text: String, bytes_max: usize) -> Result<String, &'static str> {
    match text.len() {
        0 => Err("it is empty"),
        _ if text.contains('\0') => Err("it contains a zero byte"),
        length if length > bytes_max => Err("it is too long"),
        _ => Ok(text),
    }
}

/// The text in a header: plain, or JSON.
pub(super) fn read_text(value: &[u8]) -> Result<String, &'static str> {
    let text = std::str::from_utf8(value).map_err(|_| "it is not UTF-8")?;
    match text.as_bytes().first() {
        None => Err("it is empty"),
        Some(b'{' | b'"') => from_json(text).ok_or("it is JSON without a text in it"),
        Some(_) => Ok(text.to_owned()),
    }
}

/// A JSON string, or the one in `{"schema": …, "payload": …}`.
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

    /// Names and values.
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
    fn a_function_tells_the_id() {
        let source = IdSource::Function(Arc::new(|event| Some(format!("{}", event.offset))));
        assert_eq!(source.id(&event::<&[u8]>(&[])).as_deref(), Ok("0"));
        let none = IdSource::Function(Arc::new(|_| None));
        assert_eq!(none.id(&event::<&[u8]>(&[])), Err(IdError::Refused));
    }

    /// Invariant: an id of a function obeys the same checks as one in a header, and a panic is the event's failure.
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
