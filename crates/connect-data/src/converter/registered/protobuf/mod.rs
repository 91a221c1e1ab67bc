//! `ProtobufConverter`: Protobuf's binary encoding, and schemas in the language of `.proto` files.
//!
//! ```text
//!   Schema ──message──▶ Message ──text──▶ .proto
//!   Value  ──wire───────────────────────▶ indexes of the message in its file · fields
//! ```

mod indexes;
mod logical;
mod message;
mod names;
mod text;
mod wire;
mod wrapper;

pub(super) use text::text;
pub(in crate::converter) use wire::{OpenMessage, Writer};

use super::{ConvertError, SchemaError, SchemaText};
use crate::converter::UnsupportedSchema;
use crate::{Kind, Schema, Value};
use wrapper::Wrapper;

/// The converter's own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProtobufOptions {
    /// `wrapper.for.nullables` (false): optional scalars are messages of `google.protobuf`.
    pub(super) wrappers: bool,
    /// `optional.for.nullables` (false): optional fields are `optional`.
    pub(super) optionals: bool,
    /// `scrub.invalid.names` (false): names that Protobuf does not allow are changed.
    pub(super) scrub: bool,
    /// `ignore.default.for.nullables` (false): a null is not replaced by the default.
    pub(super) ignore_defaults: bool,
}

/// Checks that values of this schema can be written: records, and scalars in one of Google's wrappers.
pub(super) fn accepts(schema: &Schema) -> Result<(), UnsupportedSchema> {
    match schema.kind {
        Kind::Struct(_) => Ok(()),
        _ if Wrapper::of(&schema.kind).is_some() && !logical::is_message(schema) => Ok(()),
        _ => Err(unsupported(schema)),
    }
}

/// Appends a value, preceded by the indexes of its message.
pub(super) fn write(
    out: &mut Vec<u8>,
    schema: &Schema,
    value: &Value<'_>,
    options: ProtobufOptions,
) -> Result<(), ConvertError> {
    accepts(schema)?;
    match (&schema.kind, value) {
        (Kind::Struct(fields), Value::Struct(values)) => {
            begin(out, schema, options)?.fields(out, fields, values)
        }
        (kind, value) => {
            indexes::write(out, &[Wrapper::of(kind).ok_or_else(|| unsupported(schema))?.index()]);
            Writer::new(options).wrapped(out, schema, value)
        }
    }
}

/// Appends the indexes of a struct's message and returns a writer for its fields.
pub(super) fn begin(
    out: &mut Vec<u8>,
    schema: &Schema,
    options: ProtobufOptions,
) -> Result<Writer, ConvertError> {
    indexes::write_of(out, schema, options)?;
    Ok(Writer::new(options))
}

fn unsupported(schema: &Schema) -> UnsupportedSchema {
    let schema = schema.name().map_or_else(|| schema.kind.to_string(), str::to_owned);
    UnsupportedSchema { converter: "ProtobufConverter", schema }
}
