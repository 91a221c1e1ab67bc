//! The value that replaces a TOASTed value that an update did not change and the server did not send.

use std::borrow::Cow;
use std::fmt::Write as _;

use md5::{Digest as _, Md5};

use connect_data::column::{BinaryHandling, ColumnCodec};
use connect_data::{Kind, OptionReader, Refused, Schema, Value};
use pg_replication::pgoutput::ColumnValue;

const OPTION: &str = "unavailable.value.placeholder";
const DEFAULT: &str = "__debezium_unavailable_value";

/// The types of arrays for which Debezium has a placeholder.
const ARRAYS: [&str; 10] = [
    "text[]",
    "varchar[]",
    "bpchar[]",
    "json[]",
    "jsonb[]",
    "bytea[]",
    "int4[]",
    "date[]",
    "int8[]",
    "uuid[]",
];

/// `unavailable.value.placeholder`: a text, or `hex:` and hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placeholder {
    bytes: Vec<u8>,
    text: String,
}

impl Placeholder {
    /// Reads the option; the default is Debezium's.
    ///
    /// # Errors
    /// When `hex:` is not followed by pairs of hexadecimal digits.
    pub(in crate::change) fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let said = options.text(OPTION).unwrap_or_else(|| DEFAULT.to_owned());
        let reason = "after hex: it needs hexadecimal digits, two for each byte";
        Self::parse(&said).ok_or_else(|| options.refuse(OPTION, said, reason))
    }

    fn parse(said: &str) -> Option<Self> {
        let bytes = match said.strip_prefix("hex:") {
            Some(digits) => hex_bytes(digits)?,
            None => said.as_bytes().to_vec(),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(Self { bytes, text })
    }
}

fn hex_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        digits.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect::<Option<_>>()?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

/// Returns the placeholder in the form of a column. As in Debezium, it is null for base64 and for most lists.
/// Where the column cannot be null Debezium stops; here the value is the text or an empty list.
pub(in crate::change) fn of(
    codec: &ColumnCodec,
    binary: BinaryHandling,
    placeholder: &Placeholder,
) -> Value<'static> {
    let base64 = matches!(binary, BinaryHandling::Base64 | BinaryHandling::Base64UrlSafe);
    match codec.type_name() {
        "bytea" if base64 && codec.schema().optional => Value::Null,
        "hstore" => decoded(codec, &format!("{0}=>{0}", quoted(&placeholder.text))),
        name if matches!(codec.schema().kind, Kind::Array(_)) && !ARRAYS.contains(&name) => {
            super::zero::of_schema(codec.schema())
        }
        _ => codec.mapped(of_schema(codec.schema(), placeholder)),
    }
}

/// Decodes a text as a value that the server sends for the column.
fn decoded(codec: &ColumnCodec, text: &str) -> Value<'static> {
    let value = codec.decode_without_default(ColumnValue::Text(text.as_bytes()));
    value.map_or(Value::Null, Value::into_owned)
}

fn of_schema(schema: &Schema, placeholder: &Placeholder) -> Value<'static> {
    match &schema.kind {
        Kind::String => Value::Str(Cow::Owned(placeholder.text.clone())),
        // Bit strings and decimals have a named schema.
        Kind::Bytes if schema.name.is_none() => Value::Bytes(Cow::Owned(placeholder.bytes.clone())),
        Kind::Array(element) => {
            elements(element, placeholder).map_or_else(|| super::zero::of_schema(schema), Value::Array)
        }
        _ => super::zero::of_schema(schema),
    }
}

/// Returns the elements of an array's placeholder. As in Debezium, arrays of numbers contain the
/// placeholder's bytes, and arrays of UUIDs a hash of them.
fn elements(element: &Schema, Placeholder { bytes, text }: &Placeholder) -> Option<Vec<Value<'static>>> {
    let signed = bytes.iter().map(|byte| byte.cast_signed());
    Some(match (&element.kind, element.name()) {
        (Kind::Int32, None | Some("io.debezium.time.Date")) => {
            signed.map(|byte| Value::Int32(i32::from(byte))).collect()
        }
        (Kind::Int64, None) => signed.map(|byte| Value::Int64(i64::from(byte))).collect(),
        (Kind::String, Some("io.debezium.data.Uuid")) => vec![Value::Str(Cow::Owned(name_uuid(bytes)))],
        (Kind::Bytes, None) => vec![Value::Bytes(Cow::Owned(bytes.clone()))],
        (Kind::String, _) => vec![Value::Str(Cow::Owned(text.clone()))],
        _ => return None,
    })
}

/// Computes Java's `UUID.nameUUIDFromBytes`.
fn name_uuid(bytes: &[u8]) -> String {
    let mut hash: [u8; 16] = Md5::digest(bytes).into();
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

/// Quotes a text as the text form of hstore does.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_bytes_with_a_sign() {
        let element = Schema::new(Kind::Int32);
        let placeholder = Placeholder::parse("é").unwrap();
        assert_eq!(elements(&element, &placeholder), Some(vec![Value::Int32(-61), Value::Int32(-87)]));
    }

    #[test]
    fn bytes_may_be_said_by_digits() {
        let cases = [
            ("hex:0102fF", Some((&b"\x01\x02\xff"[..], "\u{1}\u{2}\u{fffd}"))),
            ("hex:", Some((b"", ""))),
            ("hex:0", None),
            ("hex:0g", None),
            ("Hex:00", Some((b"Hex:00", "Hex:00"))),
        ];
        for (said, expected) in cases {
            let found = Placeholder::parse(said);
            let found = found.as_ref().map(|found| (found.bytes.as_slice(), found.text.as_str()));
            assert_eq!(found, expected, "{said}");
        }
    }

    #[test]
    fn a_uuid_is_made_of_a_name_as_java_makes_it() {
        assert_eq!(name_uuid(DEFAULT.as_bytes()), "b68a35a7-17ad-35b3-af2a-ae46edb4545a");
    }
}
