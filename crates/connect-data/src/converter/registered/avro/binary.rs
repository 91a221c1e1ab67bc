//! Avro's binary encoding of Connect values: <https://avro.apache.org/docs/1.12.0/specification/#binary-encoding>.

use super::{ConvertError, UnsupportedSchema};
use crate::converter::json::counted;
use crate::java::hash_map::{Made, in_order};
use crate::{Kind, Schema, Value};

/// Writer of values with the converter's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::converter) struct Writer {
    /// `ignore.default.for.nullables` (false): a null is not replaced by the default.
    pub(in super::super) ignore_defaults: bool,
}

impl Writer {
    /// Appends a value of this schema.
    pub(super) fn value(
        self,
        out: &mut Vec<u8>,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        if schema.optional {
            // Index of the union's branch.
            write_long(out, i64::from(value.is_null() != null_is_first(schema)));
        }
        self.branch(out, schema, value)
    }

    /// Appends a value without the index of its branch in a union.
    pub(super) fn branch(
        self,
        out: &mut Vec<u8>,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        match (&schema.kind, value) {
            (_, Value::Null) if schema.optional => {}
            (_, Value::Null) => return Err(ConvertError::RequiredNull),
            (Kind::Boolean, Value::Bool(flag)) => out.push(u8::from(*flag)),
            (Kind::Int8, Value::Int8(number)) => write_long(out, i64::from(*number)),
            (Kind::Int16, Value::Int16(number)) => write_long(out, i64::from(*number)),
            (Kind::Int32, Value::Int32(number)) => write_long(out, i64::from(*number)),
            (Kind::Int64, Value::Int64(number)) => write_long(out, *number),
            (Kind::Int32 | Kind::Int64, Value::Date(millis)) => {
                write_long(out, counted(Some(schema), *millis));
            }
            (Kind::Float32, Value::Float32(number)) => out.extend(number.to_le_bytes()),
            (Kind::Float64, Value::Float64(number)) => out.extend(number.to_le_bytes()),
            (Kind::Float64, Value::Json(digits)) => {
                let nearest: f64 = digits.parse().map_err(|_| unsupported(&schema.kind))?;
                out.extend(nearest.to_le_bytes());
            }
            (Kind::String, Value::Str(text)) => write_bytes(out, text.as_bytes()),
            (Kind::Bytes, Value::Bytes(bytes)) => write_bytes(out, bytes),
            (Kind::Bytes, Value::Decimal(number)) => write_bytes(out, &number.unscaled_bytes()),
            (Kind::Array(element), Value::Array(items)) => {
                write_block(out, items, |out, item| self.value(out, element, item))?;
            }
            (Kind::Map(keys, values), Value::Map(entries)) if keys.kind != Kind::String => {
                write_block(out, entries, |out, (key, value)| {
                    self.value(out, keys, key)?;
                    self.value(out, values, value)
                })?;
            }
            (Kind::Map(_, values), Value::Map(entries)) => {
                let mut texts = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let Value::Str(key) = key else { return Err(unsupported(&schema.kind)) };
                    texts.push((key.as_ref(), value));
                }
                // Java's converter copies the entries into a new `HashMap`.
                write_block(out, &in_order(texts, Made::Empty, |(key, _)| key), |out, (key, value)| {
                    write_bytes(out, key.as_bytes());
                    self.value(out, values, value)
                })?;
            }
            (Kind::Struct(fields), Value::Struct(values)) if fields.len() == values.len() => {
                for (field, value) in fields.iter().zip(values) {
                    self.field(out, &field.schema, value)?;
                }
            }
            (kind, _) => return Err(unsupported(kind)),
        }
        Ok(())
    }

    /// Appends the value of a struct's field. As in `Struct.get`, a null is replaced by the default.
    pub(in crate::converter) fn field(
        self,
        out: &mut Vec<u8>,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        let default = schema.default.as_ref().filter(|_| value.is_null() && !self.ignore_defaults);
        self.value(out, schema, default.unwrap_or(value))
    }
}

/// Begins a struct whose fields are then appended one by one: appends the index of its branch if it is optional.
pub(in super::super::super) fn begin_struct(out: &mut Vec<u8>, schema: &Schema) {
    if schema.optional {
        write_long(out, i64::from(null_is_first(schema)));
    }
}

/// Appends bytes without their length.
pub(super) fn write_bare(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), ConvertError> {
    match value {
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Decimal(number) => out.extend_from_slice(&number.unscaled_bytes()),
        _ => return Err(unsupported(&Kind::Bytes)),
    }
    Ok(())
}

/// Reports whether the union of an optional schema begins with null. It begins with the type of the default value if there is
/// one, except for a struct.
pub(super) const fn null_is_first(schema: &Schema) -> bool {
    schema.default.is_none() || matches!(schema.kind, Kind::Struct(_))
}

/// Appends the items as one block, then the empty block that ends the list.
pub(super) fn write_block<T>(
    out: &mut Vec<u8>,
    items: &[T],
    write_item: impl Fn(&mut Vec<u8>, &T) -> Result<(), ConvertError>,
) -> Result<(), ConvertError> {
    if !items.is_empty() {
        write_length(out, items.len());
        items.iter().try_for_each(|item| write_item(out, item))?;
    }
    write_long(out, 0);
    Ok(())
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_length(out, bytes.len());
    out.extend_from_slice(bytes);
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    write_long(out, i64::try_from(length).unwrap_or(i64::MAX));
}

/// Appends a number in zigzag encoding, seven bits per byte, the lowest first.
pub(super) fn write_long(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest > 0x7F {
        out.push(u8::try_from(rest & 0x7F).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or_default());
}

fn unsupported(kind: &Kind) -> ConvertError {
    UnsupportedSchema { converter: "AvroConverter", schema: kind.to_string() }.into()
}
