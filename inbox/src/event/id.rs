use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use thiserror::Error;

use super::Event;

/// The headers that hold an event's id, the first that is there counts: those of Debezium and outboxd, of HTTP, and of
/// CloudEvents.
const HEADERS: [&str; 4] = ["id", "idempotency-key", "ce_id", "message-id"];

/// The longest id, in bytes. It is the key of an index, and what one event costs to remember.
const ID_BYTES_MAX: usize = 255;

/// Why an event has no id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
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
}

/// A function of the service that tells an event's id.
pub type IdFunction = dyn Fn(&Event) -> Option<String> + Send + Sync;

/// Where the id of an event is found.
#[derive(Clone)]
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
    /// When it has none, or one that cannot be kept.
    pub fn id(&self, event: &Event) -> Result<String, IdError> {
        let names = match self {
            Self::Function(function) => return function(event).ok_or(IdError::Refused),
            Self::Headers(names) => names,
        };
        for name in names {
            let Some(value) = event.headers.last(name) else { continue };
            return read(value).map_err(|reason| IdError::Malformed { header: name.clone(), reason });
        }
        Err(IdError::Missing { looked_for: names.clone() })
    }
}

/// The id in a header: text, or JSON as Debezium Server and Connect's `JsonConverter` write it.
fn read(value: &[u8]) -> Result<String, &'static str> {
    let id = read_text(value)?;
    match id.len() {
        0 => Err("it is empty"),
        _ if id.contains('\0') => Err("it contains a zero byte"),
        1..=ID_BYTES_MAX => Ok(id),
        _ => Err("it is longer than 255 bytes"),
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
}
