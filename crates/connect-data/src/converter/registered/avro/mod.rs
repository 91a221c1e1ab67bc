//! `AvroConverter`: Avro's binary encoding and Avro schemas.

mod anything;
mod binary;
mod name;
mod properties;
mod schema;
#[cfg(test)]
mod tests;

pub(in super::super) use binary::{Writer, begin_struct};
pub(super) use name::NameError;
pub(super) use schema::{TextOptions, text};
#[cfg(test)]
pub(super) use tests::any_case;

use super::{ConvertError, Flavor, SchemaError, SchemaText, UnsupportedSchema};
use crate::{Kind, Schema, Value};

/// Appends a value.
pub(super) fn write(
    flavor: Flavor,
    text: TextOptions,
    writer: Writer,
    schema: Option<&Schema>,
    value: &Value<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ConvertError> {
    match schema {
        None => anything::write(out, value),
        Some(schema) if is_bare(flavor, schema) => binary::write_bare(out, value),
        Some(schema) if text.is_lone_record(schema) => writer.branch(out, schema, value),
        Some(schema) => writer.value(out, schema, value),
    }
}

/// Reports whether a value is written without its length, as Confluent's serializer writes required bytes.
fn is_bare(flavor: Flavor, schema: &Schema) -> bool {
    flavor == Flavor::Confluent && schema.kind == Kind::Bytes && !schema.optional
}
