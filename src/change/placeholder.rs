//! What stands for a TOASTed value that an update did not change and the server did not send.

use std::borrow::Cow;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};

use crate::connect::column::{BinaryHandling, ColumnCodec};
use crate::connect::{Kind, Schema, Value};
use crate::pgoutput::ColumnValue;

/// The placeholder `text` in the form of a column. In base64 Debezium has none, and sends null; where that cannot be it stops,
/// and the text is sent here.
pub(super) fn of(codec: &ColumnCodec, binary: BinaryHandling, text: &str) -> Value<'static> {
    let base64 = matches!(binary, BinaryHandling::Base64 | BinaryHandling::Base64UrlSafe);
    match codec.type_name() {
        "bytea" if base64 && codec.schema().optional => Value::Null,
        "hstore" => decoded(codec, &format!("{0}=>{0}", quoted(text))),
        _ => of_schema(codec.schema(), text),
    }
}

/// As the column has a value that is sent.
fn decoded(codec: &ColumnCodec, text: &str) -> Value<'static> {
    let value = codec.decode_without_default(ColumnValue::Text(text.as_bytes()));
    value.map_or(Value::Null, Value::into_owned)
}

fn of_schema(schema: &Schema, text: &str) -> Value<'static> {
    match &schema.kind {
        Kind::String => Value::Str(Cow::Owned(text.to_owned())),
        Kind::Bytes => Value::Bytes(Cow::Owned(text.as_bytes().to_vec())),
        Kind::Array(element) => Value::Array(elements(element, text)),
        _ => super::zero::of_schema(schema),
    }
}

/// Debezium puts the placeholder's bytes into arrays of numbers, and a hash of it into those of UUIDs.
fn elements(element: &Schema, text: &str) -> Vec<Value<'static>> {
    let bytes = text.bytes().map(u8::cast_signed);
    match (&element.kind, element.name()) {
        (Kind::Int16, None) => bytes.map(|byte| Value::Int16(i16::from(byte))).collect(),
        (Kind::Int32, None) => bytes.map(|byte| Value::Int32(i32::from(byte))).collect(),
        (Kind::Int64, None) => bytes.map(|byte| Value::Int64(i64::from(byte))).collect(),
        (Kind::String, Some("io.debezium.data.Uuid")) => vec![Value::Str(Cow::Owned(name_uuid(text)))],
        (Kind::String, _) => vec![Value::Str(Cow::Owned(text.to_owned()))],
        _ => Vec::new(),
    }
}

/// Java's `UUID.nameUUIDFromBytes`.
fn name_uuid(text: &str) -> String {
    let mut hash: [u8; 16] = Md5::digest(text.as_bytes()).into();
    for (byte, kept, set) in [(6, 0x0f, 0x30), (8, 0x3f, 0x80)] {
        if let Some(byte) = hash.get_mut(byte) {
            *byte = *byte & kept | set;
        }
    }
    let digits = hexadecimal(&hash);
    let mut uuid = String::with_capacity(36);
    for (at, digit) in digits.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            uuid.push('-');
        }
        uuid.push(digit);
    }
    uuid
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

/// As hstore's text form quotes.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bytes_with_a_sign() {
        let element = Schema::new(Kind::Int32);
        assert_eq!(elements(&element, "é"), [Value::Int32(-61), Value::Int32(-87)]);
    }

    #[test]
    fn a_uuid_is_made_of_a_name_as_java_makes_it() {
        assert_eq!(name_uuid("__debezium_unavailable_value"), "b68a35a7-17ad-35b3-af2a-ae46edb4545a");
    }
}
