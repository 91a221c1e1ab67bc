//! Parser of InsertHeader's `value.literal`, equal to Connect's `Values.parseString`.

use std::sync::Arc;

use crate::java::date_format::DateFormat;
use crate::source_record::Datum;
use crate::{Decimal, Kind, Schema, Value};

const DATE: &str = "org.apache.kafka.connect.data.Date";
const TIME: &str = "org.apache.kafka.connect.data.Time";
const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";
const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// Reads a literal: null, a boolean, a number of the smallest type that fits, a date, time or timestamp, or a list; anything
/// else is a string.
pub(in crate::transform) fn parse(text: &str) -> Result<Datum<'static>, &'static str> {
    let trimmed = text.trim();
    let typed = |kind, value| Ok(Datum::new(Arc::new(Schema::new(kind)), value));
    match trimmed {
        "null" => return Ok(Datum::NULL),
        "true" | "false" => return typed(Kind::Boolean, Value::Bool(trimmed == "true")),
        _ => {}
    }
    if let Some(moment) = temporal(trimmed) {
        return Ok(moment);
    }
    let is_number = trimmed.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-'));
    if is_number {
        if let Some(number) = number(trimmed) {
            return Ok(number);
        }
        if trimmed.contains([',', ':', '[', ']', '{', '}', '"']) {
            return Err("Kafka would read the number before the first sign only; write another text");
        }
    }
    if is_between(trimmed, '[', ']') {
        return list(trimmed).ok_or("only lists of whole numbers, or of texts in quotes, are read here");
    }
    if is_between(trimmed, '{', '}') {
        return Err("maps are not read here");
    }
    typed(Kind::String, Value::Str(text.to_owned().into()))
}

fn is_between(text: &str, first: char, last: char) -> bool {
    text.starts_with(first) && text.ends_with(last)
}

fn temporal(text: &str) -> Option<Datum<'static>> {
    if !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let unescaped = text.replace("\\:", ":");
    let (pattern, kind, name) = match unescaped.len() {
        10 => ("yyyy-MM-dd", Kind::Int32, DATE),
        12 => ("HH:mm:ss.SSS'Z'", Kind::Int32, TIME),
        24 => ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", Kind::Int64, TIMESTAMP),
        _ => return None,
    };
    let millis = DateFormat::compile(pattern)?.parse(&unescaped)?;
    Some(Datum::new(Arc::new(Schema::named(kind, name)), Value::Date(millis)))
}

/// Reads a list of quoted texts, or of whole numbers, all of the type of the largest one.
fn list(text: &str) -> Option<Datum<'static>> {
    let inside = text.strip_prefix('[')?.strip_suffix(']')?;
    let items: Vec<_> = inside.split(',').map(str::trim).collect();
    let texts: Option<Vec<_>> = items.iter().map(|item| quoted(item)).collect();
    let (kind, values) = match texts {
        Some(texts) => (Kind::String, texts),
        None => whole_numbers(&items)?,
    };
    let schema = Schema::new(Kind::Array(Arc::new(Schema::new(kind))));
    Some(Datum::new(Arc::new(schema), Value::Array(values)))
}

/// Reads a quoted text without escapes that is no date, time or timestamp.
fn quoted(item: &str) -> Option<Value<'static>> {
    let text = item.strip_prefix('"')?.strip_suffix('"')?;
    let is_plain = !text.contains(['"', '\\']) && temporal(text).is_none();
    is_plain.then(|| Value::Str(text.to_owned().into()))
}

fn whole_numbers(items: &[&str]) -> Option<(Kind, Vec<Value<'static>>)> {
    let numbers: Vec<i64> = items.iter().map(|item| item.parse().ok()).collect::<Option<_>>()?;
    let largest = numbers.iter().max_by_key(|number| if **number < 0 { !**number } else { **number })?;
    let (kind, _) = whole_number(*largest);
    let value = |number: i64| match kind {
        Kind::Int8 => i8::try_from(number).ok().map(Value::Int8),
        Kind::Int16 => i16::try_from(number).ok().map(Value::Int16),
        Kind::Int32 => i32::try_from(number).ok().map(Value::Int32),
        _ => Some(Value::Int64(number)),
    };
    let values = numbers.into_iter().map(value).collect::<Option<_>>()?;
    Some((kind, values))
}

/// Reads a number: a whole one is of the smallest type that fits, or a decimal beyond INT64; any other is a FLOAT32.
fn number(text: &str) -> Option<Datum<'static>> {
    if text.contains(['e', 'E']) {
        return scientific(text);
    }
    let decimal = Decimal::parse(text)?;
    let scale = decimal.scale();
    let (kind, value) = match decimal.clone().with_scale(0) {
        Some(whole) => match whole.to_plain_string().parse::<i64>() {
            Ok(whole) => whole_number(whole),
            Err(_) => {
                let schema = Schema::named(Kind::Bytes, DECIMAL).with_parameter("scale", scale);
                return Some(Datum::new(Arc::new(schema), Value::Decimal(decimal)));
            }
        },
        None => (Kind::Float32, Value::Float32(text.parse().ok()?)),
    };
    Some(Datum::new(Arc::new(Schema::new(kind)), value))
}

fn scientific(text: &str) -> Option<Datum<'static>> {
    let number: f64 = text.parse().ok().filter(|number: &f64| number.is_finite())?;
    let (kind, value) = match format!("{number}").parse::<i64>() {
        Ok(whole) => whole_number(whole),
        Err(_) => {
            (Kind::Float32, Value::Float32(text.parse().ok().filter(|number: &f32| number.is_finite())?))
        }
    };
    Some(Datum::new(Arc::new(Schema::new(kind)), value))
}

fn whole_number(number: i64) -> (Kind, Value<'static>) {
    if let Ok(number) = i8::try_from(number) {
        return (Kind::Int8, Value::Int8(number));
    }
    if let Ok(number) = i16::try_from(number) {
        return (Kind::Int16, Value::Int16(number));
    }
    match i32::try_from(number) {
        Ok(number) => (Kind::Int32, Value::Int32(number)),
        Err(_) => (Kind::Int64, Value::Int64(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals_are_read_as_connect_reads_them() {
        let cases: &[(&str, Option<&str>, Value<'_>)] = &[
            ("shop", Some("STRING"), Value::str("shop")),
            ("", Some("STRING"), Value::str("")),
            ("42", Some("INT8"), Value::Int8(42)),
            ("-129", Some("INT16"), Value::Int16(-129)),
            ("70000", Some("INT32"), Value::Int32(70_000)),
            ("5000000000", Some("INT64"), Value::Int64(5_000_000_000)),
            ("1.0", Some("INT8"), Value::Int8(1)),
            ("1.5", Some("FLOAT32"), Value::Float32(1.5)),
            ("1e3", Some("INT16"), Value::Int16(1000)),
            ("true", Some("BOOLEAN"), Value::Bool(true)),
            ("null", None, Value::Null),
            ("2024-01-02", Some("INT32"), Value::Date(1_704_153_600_000)),
            ("2024-01-02T03:04:05.123Z", Some("INT64"), Value::Date(1_704_164_645_123)),
            ("1x", Some("STRING"), Value::str("1x")),
        ];
        for (text, kind, value) in cases {
            let read = parse(text).expect(text);
            let read_kind = read.schema.map(|schema| schema.kind.to_string());
            assert_eq!((read_kind.as_deref(), &read.value), (*kind, value), "{text}");
        }
        let lists = [
            ("[1,-128]", "INT8", Value::Int8(1)),
            ("[ 1 , 300 ]", "INT16", Value::Int16(1)),
            ("[70000,-1]", "INT32", Value::Int32(70_000)),
            (r#"["a", "b"]"#, "STRING", Value::str("a")),
        ];
        for (text, kind, first) in lists {
            let Datum { schema, value: Value::Array(items) } = parse(text).expect(text) else {
                panic!("{text}")
            };
            let Kind::Array(element) = &schema.unwrap().kind else { panic!("{text}") };
            assert_eq!((element.kind.to_string().as_str(), items.first()), (kind, Some(&first)), "{text}");
        }
        for refused in ["[]", "[1,\"a\"]", "[1.5]", "{\"a\":1}", "12:34"] {
            assert!(parse(refused).is_err(), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn any_literal_is_read_or_refused(text in "[-+0-9a-eT:.Z\\[\\]]{0,26}") {
            let _read = parse(&text);
        }
    }
}
