//! Schemas for decoding records.

use std::collections::HashMap;

use super::Registries;
use crate::connect::converter::registered::{DecodeError, Decoder, SchemaId, Side, WrittenSchema, split};

/// Most schemas that are stored. With more, all are forgotten and requested again.
const SCHEMAS_MAX: usize = 1_000;

/// Schemas that records were written with, for decoding the records. Makes no requests.
#[derive(Debug)]
pub(crate) struct Schemas {
    keys: bool,
    values: bool,
    known: HashMap<(Side, SchemaId), Result<Decoder, Unreadable>>,
}

/// Decoded key or value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written<'b> {
    /// Plain: no id of a schema is before it.
    Plain(&'b [u8]),
    /// JSON, in the form of `JsonConverter` without schemas.
    Json(Vec<u8>),
    /// Not decodable.
    Unreadable(Unreadable),
}

/// Reason for which something with the id of a schema cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("the schema registry has no schema {0}")]
    NoSchema(u32),
    /// The registry could not be asked; what it was that kept it from an answer.
    #[error("schema {id} is unknown: {reason}")]
    NoAnswer { id: u32, reason: String },
    #[error("schema {id}")]
    Decode {
        id: u32,
        #[source]
        source: DecodeError,
    },
}

impl Schemas {
    /// Creates it without schemas. Only a side that has a registry is decoded.
    #[must_use]
    pub(crate) fn new(registries: &Registries) -> Self {
        let [keys, values] = [Side::Key, Side::Value].map(|side| registries.has(side));
        Self { keys, values, known: HashMap::new() }
    }

    /// Decodes a key or a value, or returns the schema that must be requested first.
    ///
    /// # Errors
    /// When a schema is not known.
    pub(crate) fn read<'b>(&self, side: Side, bytes: &'b [u8]) -> Result<Written<'b>, SchemaId> {
        let has_registry = match side {
            Side::Key => self.keys,
            Side::Value => self.values,
        };
        let Some((id, body)) = split(bytes).filter(|_| has_registry) else {
            return Ok(Written::Plain(bytes));
        };
        Ok(match self.known.get(&(side, id)).ok_or(id)? {
            Ok(decoder) => match decoder.json(body) {
                Ok(json) => Written::Json(json),
                Err(source) => Written::Unreadable(Unreadable::Decode { id: id.0, source }),
            },
            Err(why) => Written::Unreadable(why.clone()),
        })
    }

    /// Stores the registry's answer.
    pub(crate) fn learn(&mut self, side: Side, id: SchemaId, schema: Option<&WrittenSchema>) {
        let decoder = match schema {
            Some(schema) => Decoder::new(schema).map_err(|source| Unreadable::Decode { id: id.0, source }),
            None => Err(Unreadable::NoSchema(id.0)),
        };
        self.remember(side, id, decoder);
    }

    /// Stores that the registry did not return it, and why.
    pub(crate) fn give_up(&mut self, side: Side, id: SchemaId, reason: String) {
        self.remember(side, id, Err(Unreadable::NoAnswer { id: id.0, reason }));
    }

    /// Forgets for which schemas there was none, or no answer: that may be otherwise now.
    pub(crate) fn forget_absent(&mut self) {
        let is_absent = |known: &Result<Decoder, Unreadable>| {
            matches!(known, Err(Unreadable::NoSchema(_) | Unreadable::NoAnswer { .. }))
        };
        self.known.retain(|_, known| !is_absent(known));
    }

    fn remember(&mut self, side: Side, id: SchemaId, decoder: Result<Decoder, Unreadable>) {
        if self.known.len() >= SCHEMAS_MAX {
            self.known.clear();
        }
        self.known.insert((side, id), decoder);
    }
}

impl<'b> Written<'b> {
    /// Returns what can be compared and searched: text that is JSON, or the bytes themselves where they
    /// cannot be decoded.
    #[must_use]
    pub(crate) fn or(self, bytes: &'b [u8]) -> std::borrow::Cow<'b, [u8]> {
        match self {
            Self::Plain(plain) => plain.into(),
            Self::Json(json) => json.into(),
            Self::Unreadable(_) => bytes.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::converter::registered::SchemaType;

    fn schemas() -> Schemas {
        Schemas { keys: true, values: false, known: HashMap::new() }
    }

    #[test]
    fn a_record_is_decoded_once_its_schema_is_known() {
        let mut schemas = schemas();
        let bytes = b"\0\0\0\0\x07\x04ab";
        assert_eq!(schemas.read(Side::Value, bytes), Ok(Written::Plain(bytes)), "no registry");
        assert_eq!(schemas.read(Side::Key, b"\0\0\0"), Ok(Written::Plain(b"\0\0\0")), "no id");
        assert_eq!(schemas.read(Side::Key, b"{}"), Ok(Written::Plain(b"{}")), "no id");
        assert_eq!(schemas.read(Side::Key, bytes), Err(SchemaId(7)));
        let cases = [
            (Some("\"string\""), "\"ab\""),
            (Some("\"int\""), "schema 7: the bytes do not match this AVRO schema"),
            (Some("\"other\""), "schema 7: it cannot be used: it does not define other"),
            (None, "the schema registry has no schema 7"),
        ];
        for (text, expected) in cases {
            let schema = text.map(|text| WrittenSchema { kind: SchemaType::Avro, text: text.to_owned() });
            schemas.learn(Side::Key, SchemaId(7), schema.as_ref());
            let said = match schemas.read(Side::Key, bytes).unwrap() {
                Written::Json(json) => String::from_utf8(json).unwrap(),
                Written::Unreadable(why) => crate::error::chain(&why),
                Written::Plain(_) => panic!("an id stands before it"),
            };
            assert_eq!(said, expected);
        }
    }

    #[test]
    fn what_was_not_there_may_be_there_later() {
        let mut schemas = schemas();
        let schema = WrittenSchema { kind: SchemaType::Avro, text: "\"string\"".to_owned() };
        let bytes = [1, 2, 3].map(|id| [0, 0, 0, 0, id, 4, b'a', b'b']);
        schemas.learn(Side::Key, SchemaId(1), Some(&schema));
        schemas.learn(Side::Key, SchemaId(2), None);
        schemas.give_up(Side::Key, SchemaId(3), "no answer".to_owned());
        let Ok(Written::Unreadable(why)) = schemas.read(Side::Key, &bytes[2]) else { panic!("it is known") };
        assert_eq!(why.to_string(), "schema 3 is unknown: no answer");
        schemas.forget_absent();
        let asked = bytes.each_ref().map(|bytes| schemas.read(Side::Key, bytes).err());
        assert_eq!(asked, [None, Some(SchemaId(2)), Some(SchemaId(3))]);
    }

    #[test]
    fn no_more_schemas_are_kept_than_allowed() {
        let mut schemas = schemas();
        for id in 0..2_500 {
            schemas.learn(Side::Key, SchemaId(id), None);
            assert!(schemas.known.len() <= SCHEMAS_MAX);
        }
    }
}
