//! SimpleHeaderConverter.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::binary::text_as_it_is;
use super::string::{joined, write_scalar};
use super::{Encoded, appended};
use crate::java;
use crate::{Kind, Schema, Value};

/// Converts a value as `SimpleHeaderConverter` does, with `Values.convertToString`.
pub(super) fn convert<'a>(schema: Option<&Schema>, value: &Value<'a>, scratch: &mut Vec<u8>) -> Encoded<'a> {
    match value {
        Value::Null => Encoded::Null,
        Value::Str(text) => text_as_it_is(text, scratch),
        Value::Bytes(bytes) => appended(scratch, |out| out.extend(STANDARD.encode(bytes).into_bytes())),
        other => appended(scratch, |out| write(out, schema, other)),
    }
}

/// Appends a value nested in another one, with text in quotes.
fn write(out: &mut Vec<u8>, schema: Option<&Schema>, value: &Value<'_>) {
    let kind = schema.map(|schema| &schema.kind);
    match value {
        Value::Str(text) => write_quoted(out, text),
        Value::Date(millis) => java::date::write_header(out, *millis),
        Value::Bytes(bytes) => write_quoted(out, &STANDARD.encode(bytes)),
        Value::Array(items) => {
            let element = match kind {
                Some(Kind::Array(element)) => Some(&**element),
                _ => None,
            };
            joined(out, ["[", ",", "]"], items.iter(), |out, item| write(out, element, item));
        }
        Value::Map(entries) => joined(out, ["{", ",", "}"], entries.iter(), |out, (key, value)| {
            write(out, None, key);
            out.push(b':');
            write(out, None, value);
        }),
        Value::Struct(values) => {
            let fields = match kind {
                Some(Kind::Struct(fields)) => fields.as_slice(),
                _ => &[],
            };
            joined(out, ["{", ",", "}"], fields.iter().zip(values), |out, (field, value)| {
                write_quoted(out, &field.name);
                out.push(b':');
                let default = field.schema.default.as_ref().filter(|_| value.is_null());
                write(out, Some(&field.schema), default.unwrap_or(value));
            });
        }
        scalar => write_scalar(out, scalar),
    }
}

/// Appends text in quotes. Only quotes and backslashes are escaped.
fn write_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
