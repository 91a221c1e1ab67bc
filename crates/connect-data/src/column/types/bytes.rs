//! `bytea` and bit strings.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use crate::column::format::Format;
use crate::column::options::BinaryHandling;
use crate::{Kind, Schema, Value};

/// Returns the schema of a `bytea`.
pub const fn schema(handling: BinaryHandling) -> Schema {
    match handling {
        BinaryHandling::Bytes => Schema::new(Kind::Bytes),
        BinaryHandling::Base64 | BinaryHandling::Base64UrlSafe | BinaryHandling::Hex => {
            Schema::new(Kind::String)
        }
    }
}

/// Reads a `bytea`, in hexadecimal or escape format.
pub(in crate::column) fn decode(text: &str, handling: BinaryHandling) -> Option<Value<'_>> {
    if handling == BinaryHandling::Hex
        && let Some(hex) = text.strip_prefix("\\x")
    {
        return Some(Value::str(hex));
    }
    let bytes = match text.strip_prefix("\\x") {
        Some(hex) => decode_hex(hex.as_bytes())?,
        None => decode_escape(text.as_bytes())?,
    };
    Some(encode(bytes.into(), handling))
}

/// Converts bytes to the Connect value of this mode.
pub fn encode(bytes: Cow<'_, [u8]>, handling: BinaryHandling) -> Value<'_> {
    match handling {
        BinaryHandling::Bytes => Value::Bytes(bytes),
        BinaryHandling::Base64 => Value::Str(Cow::Owned(STANDARD.encode(bytes))),
        BinaryHandling::Base64UrlSafe => Value::Str(Cow::Owned(URL_SAFE.encode(bytes))),
        BinaryHandling::Hex => {
            Value::Str(Cow::Owned(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
        }
    }
}

/// Returns the format and schema of a `bit(n)` or `varbit(n)`: a boolean for one bit, bytes for more.
pub(in crate::column) fn bits(length: i32) -> (Format, Schema) {
    if length == 1 {
        return (Format::Bit, Schema::new(Kind::Boolean));
    }
    let schema = Schema::named(Kind::Bytes, "io.debezium.data.Bits").with_parameter("length", length);
    (Format::Bits, schema)
}

/// Reads a bit string as little-endian bytes, without the zero bytes above the highest bit that is set.
pub(in crate::column) fn decode_bits(text: &str) -> Option<Value<'static>> {
    let digits = text.as_bytes();
    if !digits.iter().all(|digit| matches!(digit, b'0' | b'1')) {
        return None;
    }
    let byte = |bits: &[u8]| bits.iter().fold(0u8, |byte, digit| byte << 1 | (digit & 1));
    let mut bytes: Vec<u8> = digits.rchunks(8).map(byte).collect();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    Some(Value::Bytes(Cow::Owned(bytes)))
}

/// Reads hexadecimal digits, two for each byte.
pub(super) fn decode_hex(hex: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = hex.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?)).collect()
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// Reads a `bytea` in the format `bytea_output=escape`: a backslash is doubled, and a byte outside ASCII is a backslash
/// with three octal digits.
fn decode_escape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, behind @ ..] = rest {
        rest = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => {
                bytes.push(b'\\');
                behind
            }
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                behind
            }
            (b'\\', _) => return None,
            (plain, behind) => {
                bytes.push(*plain);
                behind
            }
        };
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_output_formats_are_read() {
        for (text, bytes) in [
            ("\\x", &[] as &[u8]),
            ("\\x00ff", &[0, 0xFF]),
            ("\\xDEad", &[0xDE, 0xAD]),
            ("a\\\\b\\000\\377", &[b'a', b'\\', b'b', 0, 0xFF]),
        ] {
            assert_eq!(decode(text, BinaryHandling::Bytes), Some(Value::Bytes(bytes.into())), "{text}");
        }
        for text in ["\\x0", "\\xzz", "\\9", "\\40"] {
            assert_eq!(decode(text, BinaryHandling::Bytes), None, "{text}");
        }
    }
}
