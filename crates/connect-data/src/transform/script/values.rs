//! Conversion of Connect values to CEL values.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value as Cel;
use cel::objects::{Key, Map};

use crate::source_record::{Datum, SourceRecord};
use crate::{Decimal, Kind, Schema, Value};

/// Returns the value of one of an expression's names.
pub(super) fn variable(name: &str, record: &SourceRecord<'_>) -> Cel {
    match name {
        "topic" => Cel::from(record.topic.as_ref()),
        "key" => datum(&record.key),
        "value" => datum(&record.value),
        _ => map(record.headers.iter().map(|header| (Key::from(&*header.name), datum(&header.datum)))),
    }
}

fn datum(datum: &Datum<'_>) -> Cel {
    value(&datum.value, datum.schema.as_deref())
}

/// Converts a value: numbers to int or double, times to the number that Debezium writes, bytes to bytes.
fn value(value: &Value<'_>, schema: Option<&Schema>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Int8(value) => Cel::Int(i64::from(*value)),
        Value::Int16(value) => Cel::Int(i64::from(*value)),
        Value::Int32(value) => Cel::Int(i64::from(*value)),
        Value::Int64(value) | Value::Date(value) => Cel::Int(*value),
        Value::Float32(value) => Cel::Float(f64::from(*value)),
        Value::Float64(value) => Cel::Float(*value),
        Value::Json(text) => json(text, schema),
        Value::Decimal(number) => Cel::Float(double(number)),
        Value::Str(text) => Cel::from(text.as_ref()),
        Value::Bytes(bytes) => Cel::from(bytes.to_vec()),
        Value::Array(items) => array(items, schema),
        Value::Map(entries) => entries_of(entries, schema),
        Value::Struct(values) => fields_of(values, schema),
    }
}

fn json(text: &str, schema: Option<&Schema>) -> Cel {
    match (schema.map(|schema| &schema.kind), text.parse()) {
        (Some(Kind::Float64), Ok(number)) => Cel::Float(number),
        _ => Cel::from(text),
    }
}

/// Returns the nearest double: CEL has no decimal numbers.
fn double(number: &Decimal) -> f64 {
    number.to_plain_string().parse().unwrap_or(f64::NAN)
}

fn array(items: &[Value<'_>], schema: Option<&Schema>) -> Cel {
    let element = match schema.map(|schema| &schema.kind) {
        Some(Kind::Array(element)) => Some(&**element),
        _ => None,
    };
    Cel::List(Arc::new(items.iter().map(|item| value(item, element)).collect()))
}

fn entries_of(entries: &[(Value<'_>, Value<'_>)], schema: Option<&Schema>) -> Cel {
    let of = match schema.map(|schema| &schema.kind) {
        Some(Kind::Map(_, of)) => Some(&**of),
        _ => None,
    };
    map(entries.iter().filter_map(|(key, entry)| match key {
        Value::Str(key) => Some((Key::from(&**key), value(entry, of))),
        _ => None,
    }))
}

fn fields_of(values: &[Value<'_>], schema: Option<&Schema>) -> Cel {
    let fields = match schema.map(|schema| &schema.kind) {
        Some(Kind::Struct(fields)) => fields.as_slice(),
        _ => &[],
    };
    let named = fields.iter().zip(values);
    map(named.map(|(field, of)| (Key::from(&*field.name), value(of, Some(&field.schema)))))
}

fn map(entries: impl Iterator<Item = (Key, Cel)>) -> Cel {
    Cel::Map(Map { map: Arc::new(entries.collect::<HashMap<_, _>>()) })
}

/// Returns the name of a value's type in CEL.
pub(super) fn type_name(value: &Cel) -> String {
    value.type_of().to_string()
}
