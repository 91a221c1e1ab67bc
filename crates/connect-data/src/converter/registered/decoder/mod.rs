//! Decoding of the values that these converters write, as JSON for display or for a comparison.
//!
//! ```text
//!   record ──split──▶ SchemaId ──registry──▶ WrittenSchema ──▶ Decoder
//!              └────▶ body ─────────────────────────────────────┴─▶ JSON
//! ```
//!
//! The JSON has the form of `JsonConverter` without schemas: bytes are in base64, dates and times are numbers. Decimals are
//! numbers too. A missing Protobuf field is null if the field records its presence, otherwise zero. This module does not
//! contact the registry.

mod avro;
mod avro_schema;
mod error;
#[cfg(feature = "protobuf")]
mod protobuf;
#[cfg(feature = "protobuf")]
mod protobuf_schema;
#[cfg(test)]
mod tests;

pub use error::DecodeError;

use super::{MAGIC, SchemaId, SchemaType};
use avro_schema::AvroSchema;
#[cfg(feature = "protobuf")]
use protobuf_schema::ProtobufSchema;

/// A schema as the registry stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSchema {
    /// Language of the text.
    pub kind: SchemaType,
    /// Text of the schema.
    pub text: String,
}

/// Reader of values with one schema.
#[derive(Debug)]
pub struct Decoder(Form);

#[derive(Debug)]
enum Form {
    Avro(AvroSchema),
    /// Values that are already JSON.
    Json,
    #[cfg(feature = "protobuf")]
    Protobuf(ProtobufSchema),
}

/// Splits a value into the id of its schema and the bytes after it. Returns `None` if the value does not begin with an id.
#[must_use]
pub fn split(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    let ([magic, id @ ..], body) = bytes.split_first_chunk::<{ super::PREFIX_BYTES }>()?;
    (*magic == MAGIC).then(|| (SchemaId(u32::from_be_bytes(*id)), body))
}

impl Decoder {
    /// Parses a schema.
    ///
    /// # Errors
    /// When the schema is invalid or not supported.
    pub fn new(schema: &WrittenSchema) -> Result<Self, DecodeError> {
        Ok(Self(match schema.kind {
            SchemaType::Avro => Form::Avro(AvroSchema::parse(&schema.text)?),
            SchemaType::Json => Form::Json,
            #[cfg(feature = "protobuf")]
            SchemaType::Protobuf => Form::Protobuf(ProtobufSchema::parse(&schema.text)?),
            #[cfg(not(feature = "protobuf"))]
            SchemaType::Protobuf => {
                return Err(DecodeError::Schema(crate::error::not_built("a reader of Protobuf", "protobuf")));
            }
        }))
    }

    /// Returns the bytes after the schema's id as JSON.
    ///
    /// # Errors
    /// When the bytes were not written with this schema.
    pub fn json(&self, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
        match &self.0 {
            Form::Avro(schema) => avro::json(schema, body),
            #[cfg(feature = "protobuf")]
            Form::Protobuf(schema) => protobuf::json(schema, body),
            Form::Json => serde_json::from_slice::<&serde_json::value::RawValue>(body)
                .map(|json| json.get().into())
                .map_err(|_| DecodeError::Malformed(SchemaType::Json.name())),
        }
    }
}
