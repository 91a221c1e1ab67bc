//! Values of records of change events.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::entry::{FieldDigest, Fields};

/// Field with which `ExtractNewRecordState` marks deleted rows.
const DELETED: &str = "__deleted";

/// Parsed value of a record. Its fields are names and their JSON text, as it was written.
#[derive(Debug, Default)]
pub(crate) struct Read<'v> {
    /// The row behind the change; none when there is none, as behind a delete.
    pub row: Option<Vec<(Cow<'v, str>, &'v str)>>,
    /// Operation, if it is included.
    pub op: Option<Cow<'v, str>>,
    /// Position of the change in the WAL.
    pub lsn: Option<u64>,
    /// Transaction id.
    pub xid: Option<u32>,
}

/// An object's fields in their order.
struct Object<'v>(Vec<(Cow<'v, str>, &'v RawValue)>);

impl<'v> Object<'v> {
    fn parse(text: &'v str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn get(&self, name: &str) -> Option<&'v str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.get())
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        self.get(name)?.parse().ok()
    }

    fn text(&self, name: &str) -> Option<Cow<'v, str>> {
        serde_json::from_str(self.get(name)?).ok()
    }

    /// Returns the payload beside its schema.
    fn payload(&self) -> Option<&'v str> {
        match self.0.as_slice() {
            [(schema, _), (payload, value)] if schema == "schema" && payload == "payload" => {
                Some(value.get())
            }
            _ => None,
        }
    }

    fn into_fields(self) -> Vec<(Cow<'v, str>, &'v str)> {
        self.0.into_iter().map(|(name, value)| (name, value.get())).collect()
    }
}

/// Reads what JsonConverter has written, with or without schemas. None when it is nothing of the kind.
#[must_use]
pub(crate) fn read(value: &[u8]) -> Option<Read<'_>> {
    let text = std::str::from_utf8(value).ok()?;
    let mut object = Object::parse(text)?;
    if let Some(payload) = object.payload() {
        if payload == "null" {
            return Some(Read::default());
        }
        object = Object::parse(payload)?;
    }
    match (object.get("source"), object.get("after"), object.text("op")) {
        (Some(source), Some(after), Some(op)) => of_envelope(source, after, op),
        _ => Some(of_row(object)),
    }
}

fn of_envelope<'v>(source: &'v str, after: &'v str, op: Cow<'v, str>) -> Option<Read<'v>> {
    let source = Object::parse(source)?;
    let row = match after {
        "null" => None,
        after => Some(Object::parse(after)?.into_fields()),
    };
    Some(Read { row, op: Some(op), lsn: source.number("lsn"), xid: source.number("txId") })
}

/// Reads a row alone, with what a transform may have added to it.
fn of_row(object: Object<'_>) -> Read<'_> {
    let is_deleted = object.get(DELETED).is_some_and(|text| text == "\"true\"");
    let lsn = object.number("__lsn").or_else(|| object.number("__source_lsn"));
    let xid = object.number("__txId").or_else(|| object.number("__source_txId"));
    let op = object.text("__op");
    Read { row: (!is_deleted).then(|| object.into_fields()), op, lsn, xid }
}

/// Returns the part of a key that identifies it: a schema beside it may change.
#[must_use]
pub(crate) fn key_payload(key: &[u8]) -> &[u8] {
    let object = std::str::from_utf8(key).ok().and_then(Object::parse);
    object.and_then(|object| object.payload()).map_or(key, str::as_bytes)
}

impl Read<'_> {
    /// Returns the row's fields as digests, but for those that `leaves_out`.
    pub(crate) fn digests(&self, leaves_out: impl Fn(u32) -> bool) -> Option<Fields> {
        let fields = self.row.as_ref()?.iter();
        let digests = fields.map(|(name, value)| FieldDigest::new(name, value));
        let mut digests: Vec<_> = digests.filter(|field| !leaves_out(field.name)).collect();
        digests.sort_unstable();
        Some(Fields(digests))
    }
}

impl<'de> Deserialize<'de> for Object<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fill)
    }
}

struct Fill;

impl<'de> Visitor<'de> for Fill {
    type Value = Object<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some((Name(name), value)) = map.next_entry()? {
            fields.push((name, value));
        }
        Ok(Object(fields))
    }
}

/// A name that is borrowed where it needs no change.
#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'v>(#[serde(borrow)] Cow<'v, str>);

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns its row as `name=value`, the operation, the LSN and the transaction.
    fn shown(value: &str) -> Option<String> {
        let Read { row, op, lsn, xid } = read(value.as_bytes())?;
        let row = row.map(|row| {
            let fields: Vec<_> = row.iter().map(|(name, value)| format!("{name}={value}")).collect();
            fields.join(" ")
        });
        Some(format!("{row:?} {op:?} {lsn:?} {xid:?}"))
    }

    #[test]
    fn what_a_value_says_is_read() {
        let source = r#""source":{"lsn":7,"txId":9}"#;
        let cases = [
            (
                format!(r#"{{"before":null,"after":{{"a":1,"b\"":"x"}},{source},"op":"c"}}"#),
                Some(r#"Some("a=1 b\"=\"x\"") Some("c") Some(7) Some(9)"#),
            ),
            (
                format!(r#"{{"schema":{{}},"payload":{{"after":{{"a":1.50}},{source},"op":"u"}}}}"#),
                Some(r#"Some("a=1.50") Some("u") Some(7) Some(9)"#),
            ),
            (
                format!(r#"{{"before":{{"a":1}},"after":null,{source},"op":"d"}}"#),
                Some(r#"None Some("d") Some(7) Some(9)"#),
            ),
            (r#"{"a":1,"__lsn":5}"#.to_owned(), Some(r#"Some("a=1 __lsn=5") None Some(5) None"#)),
            (r#"{"a":1,"__deleted":"true"}"#.to_owned(), Some("None None None None")),
            (
                r#"{"a":1,"__deleted":"false"}"#.to_owned(),
                Some(r#"Some("a=1 __deleted=\"false\"") None None None"#),
            ),
            (r#"{"schema":{},"payload":null}"#.to_owned(), Some("None None None None")),
            ("[1]".to_owned(), None),
            ("\0\0\0\0\u{1}".to_owned(), None),
        ];
        for (value, expected) in cases {
            assert_eq!(shown(&value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_key_is_read_from_its_payload() {
        let cases = [
            (r#"{"schema":{"type":"struct"},"payload":{"id":1}}"#, r#"{"id":1}"#),
            (r#"{"id":1}"#, r#"{"id":1}"#),
            ("Struct{id=1}", "Struct{id=1}"),
            (r#"{"payload":1,"schema":2}"#, r#"{"payload":1,"schema":2}"#),
        ];
        for (key, expected) in cases {
            assert_eq!(key_payload(key.as_bytes()), expected.as_bytes());
        }
    }
}
