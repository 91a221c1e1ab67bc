//! Values without a schema. Avro has no type for them, so they are `Anything` records, in which at most one field is not null.

use std::iter::repeat_n;

use super::binary::{write_block, write_bytes, write_long};
use super::{ConvertError, UnsupportedSchema};
use crate::Value;

/// Null branch of a field's union.
const NULL: u8 = 0;

/// Fields of `Anything`, in schema order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Boolean,
    Bytes,
    Double,
    Float,
    Int,
    Long,
    String,
    Array,
    Map,
}

impl Field {
    const ALL: [Self; 9] = [
        Self::Boolean,
        Self::Bytes,
        Self::Double,
        Self::Float,
        Self::Int,
        Self::Long,
        Self::String,
        Self::Array,
        Self::Map,
    ];
}

/// Appends a value that has no schema.
pub(super) fn write(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), ConvertError> {
    let Some(field) = field_of(value)? else {
        out.extend([NULL; Field::ALL.len()]);
        return Ok(());
    };
    out.extend(repeat_n(NULL, Field::ALL.iter().filter(|other| **other < field).count()));
    write_long(out, 1);
    write_branch(out, value)?;
    out.extend(repeat_n(NULL, Field::ALL.iter().filter(|other| **other > field).count()));
    Ok(())
}

/// Returns the field for a value, or `None` for null.
fn field_of(value: &Value<'_>) -> Result<Option<Field>, ConvertError> {
    Ok(Some(match value {
        Value::Null => return Ok(None),
        Value::Bool(_) => Field::Boolean,
        Value::Float64(_) => Field::Double,
        Value::Float32(_) => Field::Float,
        Value::Int8(_) | Value::Int16(_) | Value::Int32(_) => Field::Int,
        Value::Int64(_) => Field::Long,
        Value::Str(_) => Field::String,
        Value::Array(_) => Field::Array,
        Value::Map(_) => Field::Map,
        // Java's converter does not use the field for bytes.
        Value::Bytes(_) | Value::Json(_) | Value::Decimal(_) | Value::Date(_) | Value::Struct(_) => {
            return Err(unsupported());
        }
    }))
}

fn write_branch(out: &mut Vec<u8>, value: &Value<'_>) -> Result<(), ConvertError> {
    match value {
        Value::Bool(flag) => out.push(u8::from(*flag)),
        Value::Float64(number) => out.extend(number.to_le_bytes()),
        Value::Float32(number) => out.extend(number.to_le_bytes()),
        Value::Int8(number) => write_long(out, i64::from(*number)),
        Value::Int16(number) => write_long(out, i64::from(*number)),
        Value::Int32(number) => write_long(out, i64::from(*number)),
        Value::Int64(number) => write_long(out, *number),
        Value::Str(text) => write_bytes(out, text.as_bytes()),
        Value::Array(items) => write_block(out, items, write)?,
        Value::Map(entries) => write_block(out, entries, |out, (key, value)| {
            write(out, key)?;
            write(out, value)
        })?,
        _ => return Err(unsupported()),
    }
    Ok(())
}

fn unsupported() -> ConvertError {
    let schema = "value without a schema".to_owned();
    UnsupportedSchema { converter: "AvroConverter", schema }.into()
}
