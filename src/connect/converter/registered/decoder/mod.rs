//! Reads back what these converters write, as JSON for a person or for a comparison.
//!
//! ```text
//!   record ──split──▶ SchemaId ──registry──▶ WrittenSchema ──▶ Decoder
//!              └────▶ body ─────────────────────────────────────┴─▶ JSON
//! ```
//!
//! The JSON is that of `JsonConverter` without schemas: bytes are in base64, dates and times are numbers. Decimals are numbers
//! too. What Protobuf does not write because it is zero is a zero, and null where the field could tell. Nothing here asks the registry.

mod avro;
mod avro_schema;
mod error;
#[cfg(feature = "protobuf")]
mod protobuf;
#[cfg(feature = "protobuf")]
mod protobuf_schema;
#[cfg(test)]
mod tests;

pub(crate) use error::DecodeError;

use super::{MAGIC, SchemaId, SchemaType};
use avro_schema::AvroSchema;
#[cfg(feature = "protobuf")]
use protobuf_schema::ProtobufSchema;

/// A schema as the registry has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrittenSchema {
    /// The language of its text.
    pub kind: SchemaType,
    /// The text.
    pub text: String,
}

/// Reads values of one schema.
#[derive(Debug)]
pub(crate) struct Decoder(Form);

#[derive(Debug)]
enum Form {
    Avro(AvroSchema),
    /// What is written is JSON already.
    Json,
    #[cfg(feature = "protobuf")]
    Protobuf(ProtobufSchema),
}

/// The id of the schema that something was written with, and what stands behind it. `None` when no id stands before it.
#[must_use]
pub(crate) fn split(bytes: &[u8]) -> Option<(SchemaId, &[u8])> {
    let ([magic, id @ ..], body) = bytes.split_first_chunk::<{ super::PREFIX_BYTES }>()?;
    (*magic == MAGIC).then(|| (SchemaId(u32::from_be_bytes(*id)), body))
}

impl Decoder {
    /// Reads a schema.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn new(schema: &WrittenSchema) -> Result<Self, DecodeError> {
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

    /// What stands behind the schema's id, as JSON.
    ///
    /// # Errors
    /// When it was not written with this schema.
    pub(crate) fn json(&self, body: &[u8]) -> Result<Vec<u8>, DecodeError> {
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
