//! ByteArrayConverter and BinaryDataConverter.

use std::borrow::Cow;

use super::json::JsonConverter;
use super::{ConvertError, Encoded, UnsupportedSchema, appended};
use crate::{Kind, Schema, Value};

/// Converts as `ByteArrayConverter` does: bytes unchanged; any other value is an error.
pub(super) fn bytes<'a>(
    converter: &'static str,
    schema: Option<&Schema>,
    value: &Value<'a>,
    scratch: &mut Vec<u8>,
) -> Result<Encoded<'a>, UnsupportedSchema> {
    let unsupported = |kind: &Kind| UnsupportedSchema { converter, schema: kind.to_string() };
    match (schema, value) {
        (Some(schema), _) if schema.kind != Kind::Bytes => Err(unsupported(&schema.kind)),
        (_, Value::Null) => Ok(Encoded::Null),
        (_, Value::Bytes(bytes)) => Ok(as_they_are(bytes, scratch)),
        (_, Value::Decimal(_)) => Err(unsupported(&Kind::Bytes)),
        _ => Err(unsupported(&Kind::String)),
    }
}

/// Converts to the payload's bytes: text and binary unchanged, all other values to JSON without schema.
pub(super) fn payload_bytes<'a>(
    schema: Option<&Schema>,
    value: &Value<'a>,
    scratch: &mut Vec<u8>,
) -> Result<Encoded<'a>, ConvertError> {
    match value {
        Value::Null => Ok(Encoded::Null),
        Value::Str(text) => Ok(text_as_it_is(text, scratch)),
        Value::Bytes(bytes) => Ok(as_they_are(bytes, scratch)),
        _ => JsonConverter::PLAIN.convert(schema, value, scratch),
    }
}

/// Returns text unchanged. Text that borrows from the receive buffer is not copied.
pub(super) fn text_as_it_is<'a>(text: &Cow<'a, str>, scratch: &mut Vec<u8>) -> Encoded<'a> {
    match text {
        Cow::Borrowed(text) => Encoded::Borrowed(text.as_bytes()),
        Cow::Owned(text) => appended(scratch, |out| out.extend_from_slice(text.as_bytes())),
    }
}

fn as_they_are<'a>(bytes: &Cow<'a, [u8]>, scratch: &mut Vec<u8>) -> Encoded<'a> {
    match bytes {
        Cow::Borrowed(bytes) => Encoded::Borrowed(bytes),
        Cow::Owned(bytes) => appended(scratch, |out| out.extend_from_slice(bytes)),
    }
}
