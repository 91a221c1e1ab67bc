//! `include.unknown.datatypes`: types that Debezium knows nothing of, as the bytes of their text.

use super::bytes::{encode, schema};
use super::format::Format;
use super::{BinaryHandling, ColumnOptions};
use crate::connect::java_float::write_f64;
use crate::connect::{Schema, Value};

/// How a column of an unknown type is read, if it is shown at all.
pub(super) fn column(options: &ColumnOptions) -> Option<(Format, Schema)> {
    options.include_unknown.then(|| (Format::Unknown(options.binary), schema(options.binary)))
}

/// How a geometric type is read. pgjdbc knows these, and prints their numbers as Java prints doubles.
pub(super) fn geometric(options: &ColumnOptions) -> Option<(Format, Schema)> {
    options.include_unknown.then(|| (Format::Geometric(options.binary), schema(options.binary)))
}

/// The bytes of a text.
pub(super) fn decode(text: &str, handling: BinaryHandling) -> Value<'_> {
    encode(text.as_bytes().into(), handling)
}

/// `<(1,2),3>` becomes the bytes of `<(1.0,2.0),3.0>`.
pub(super) fn decode_geometric(text: &str, handling: BinaryHandling) -> Option<Value<'static>> {
    let mut printed = Vec::with_capacity(text.len() * 2);
    let mut rest = text;
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
        let (number, behind) = rest.split_at_checked(rest.find(|c| !is_number(c)).unwrap_or(rest.len()))?;
        if !number.is_empty() {
            write_f64(&mut printed, number.parse().ok()?);
        }
        let separator = behind.chars().next().map_or(0, char::len_utf8);
        let (separator, behind) = behind.split_at_checked(separator)?;
        printed.extend_from_slice(separator.as_bytes());
        rest = behind;
    }
    Some(encode(printed.into(), handling))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_types_are_printed_as_by_pgjdbc() {
        let cases = [
            ("{1,2,3}", "{1.0,2.0,3.0}"),
            ("[(0,0),(1e+20,-1.5)]", "[(0.0,0.0),(1.0E20,-1.5)]"),
            ("<(NaN,Infinity),1>", "<(NaN,Infinity),1.0>"),
            ("", ""),
        ];
        for (text, printed) in cases {
            let printed = Value::Bytes(printed.as_bytes().into());
            assert_eq!(decode_geometric(text, BinaryHandling::Bytes), Some(printed), "{text}");
        }
        assert_eq!(decode_geometric("(1x,2)", BinaryHandling::Bytes), None);
    }
}
