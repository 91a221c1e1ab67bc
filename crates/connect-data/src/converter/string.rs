//! StringConverter.

use std::io::Write as _;

use super::binary::text_as_it_is;
use super::{Encoded, appended};
use crate::java;
use crate::java::float::{write_f32, write_f64};
use crate::{Kind, Schema, Value};

/// Converts as `StringConverter` does: to the text that `toString()` returns for Debezium's Java object.
pub(super) fn convert<'a>(schema: Option<&Schema>, value: &Value<'a>, scratch: &mut Vec<u8>) -> Encoded<'a> {
    match value {
        Value::Null => Encoded::Null,
        Value::Str(text) => text_as_it_is(text, scratch),
        other => appended(scratch, |out| write(out, schema, other)),
    }
}

fn write(out: &mut Vec<u8>, schema: Option<&Schema>, value: &Value<'_>) {
    let kind = schema.map(|schema| &schema.kind);
    match value {
        Value::Str(text) => out.extend_from_slice(text.as_bytes()),
        Value::Date(millis) => java::date::write_string(out, *millis),
        // The text of a `ByteBuffer` has only its position and size; Debezium writes the same.
        Value::Bytes(bytes) => {
            let length = bytes.len();
            let _infallible = write!(out, "java.nio.HeapByteBuffer[pos=0 lim={length} cap={length}]");
        }
        Value::Array(items) => {
            let element = match kind {
                Some(Kind::Array(element)) => Some(&**element),
                _ => None,
            };
            let write_item = |out: &mut Vec<u8>, item: &Value<'_>| write(out, element, item);
            joined(out, ["[", ", ", "]"], items.iter(), write_item);
        }
        Value::Map(entries) => joined(out, ["{", ", ", "}"], entries.iter(), |out, (key, value)| {
            write(out, None, key);
            out.push(b'=');
            write(out, None, value);
        }),
        Value::Struct(values) => {
            let fields = match kind {
                Some(Kind::Struct(fields)) => fields.as_slice(),
                _ => &[],
            };
            let present = fields.iter().zip(values).filter(|(_, value)| !value.is_null());
            joined(out, ["Struct{", ",", "}"], present, |out, (field, value)| {
                out.extend_from_slice(field.name.as_bytes());
                out.push(b'=');
                write(out, Some(&field.schema), value);
            });
        }
        scalar => write_scalar(out, scalar),
    }
}

/// Appends a number, boolean or null, in the form of both the String and the simple header converter.
pub(super) fn write_scalar(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int8(value) => write_integer(out, *value),
        Value::Int16(value) => write_integer(out, *value),
        Value::Int32(value) => write_integer(out, *value),
        Value::Int64(value) => write_integer(out, *value),
        Value::Json(text) => out.extend_from_slice(text.as_bytes()),
        Value::Decimal(value) => {
            let _infallible = write!(out, "{value}");
        }
        Value::Float32(value) => write_f32(out, *value),
        Value::Float64(value) => write_f64(out, *value),
        Value::Str(_)
        | Value::Date(_)
        | Value::Bytes(_)
        | Value::Array(_)
        | Value::Map(_)
        | Value::Struct(_) => {}
    }
}

/// Appends an integer.
pub(super) fn write_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends items between brackets, with a separator between them.
pub(super) fn joined<T>(
    out: &mut Vec<u8>,
    [open, between, close]: [&str; 3],
    items: impl Iterator<Item = T>,
    write_item: impl Fn(&mut Vec<u8>, T),
) {
    out.extend_from_slice(open.as_bytes());
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.extend_from_slice(between.as_bytes());
        }
        write_item(out, item);
    }
    out.extend_from_slice(close.as_bytes());
}
