//! Default values in a JSON Schema. They pass through two Java libraries, which change the form of numbers and the order of maps.

use serde_json::Value as Json;

use super::SchemaError;
use crate::converter::json_text::{NonBmp, write_string};
use crate::converter::{ConvertError, JsonConverter};
use crate::java::hash_map::{Made, in_order};
use crate::{Decimal, Schema, Value};

/// Appends a default.
pub(super) fn write(
    out: &mut Vec<u8>,
    schema: &Schema,
    value: &Value<'_>,
    values: JsonConverter,
) -> Result<(), ConvertError> {
    if !is_finite(value) {
        return Err(SchemaError::Infinite.into());
    }
    let mut json = Vec::new();
    values.write(&mut json, Some(schema), value)?;
    print(out, &serde_json::from_slice(&json).unwrap_or_default());
    Ok(())
}

fn is_finite(value: &Value<'_>) -> bool {
    match value {
        Value::Float32(number) => number.is_finite(),
        Value::Float64(number) => number.is_finite(),
        Value::Array(items) | Value::Struct(items) => items.iter().all(is_finite),
        Value::Map(entries) => entries.iter().all(|(_, value)| is_finite(value)),
        _ => true,
    }
}

fn print(out: &mut Vec<u8>, json: &Json) {
    match json {
        Json::Null => out.extend(b"null"),
        Json::Bool(true) => out.extend(b"true"),
        Json::Bool(false) => out.extend(b"false"),
        Json::Number(number) => out.extend(printed_number(&number.to_string()).bytes()),
        Json::String(text) => write_string(out, text, NonBmp::Raw),
        Json::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                comma(out, index);
                print(out, item);
            }
            out.push(b']');
        }
        Json::Object(members) => {
            out.push(b'{');
            let members = in_order(members.iter().collect(), Made::Empty, |(name, _)| name);
            for (index, (name, value)) in members.into_iter().enumerate() {
                comma(out, index);
                write_string(out, name, NonBmp::Raw);
                out.push(b':');
                print(out, value);
            }
            out.push(b'}');
        }
    }
}

fn comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

/// Returns a number of org.json in the form in which Jackson reads and prints it.
fn printed_number(text: &str) -> String {
    let has_exponent = text.contains(['e', 'E']);
    let text = if text.contains('.') && !has_exponent {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    };
    match text {
        "-0" => "0".to_owned(),
        text => Decimal::parse_scientific(text).map_or_else(|| text.to_owned(), |number| number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_they_come_out_of_java() {
        for (number, printed) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("0.50", "0.5"),
            ("1.0E21", "1.0E+21"),
            ("1.0E-5", "0.000010"),
            ("120", "120"),
            ("-9223372036854775808", "-9223372036854775808"),
        ] {
            assert_eq!(printed_number(number), printed, "{number}");
        }
    }
}
