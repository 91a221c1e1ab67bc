//! What stands for a value that a required column must have and the server did not send (Debezium's fallback values).

use std::borrow::Cow;

use crate::connect::{Decimal, Kind, Schema, Value};

/// The column's default, or the zero of its type.
pub(super) fn of(schema: &Schema) -> Value<'static> {
    if schema.optional {
        return Value::Null;
    }
    schema.default.clone().unwrap_or_else(|| of_kind(schema))
}

fn of_kind(schema: &Schema) -> Value<'static> {
    match (&schema.kind, schema.name()) {
        (_, Some("org.apache.kafka.connect.data.Decimal")) => {
            Decimal::parse("0").map_or(Value::Null, |zero| Value::Decimal(scaled(zero, schema)))
        }
        (
            _,
            Some(
                "org.apache.kafka.connect.data.Date"
                | "org.apache.kafka.connect.data.Time"
                | "org.apache.kafka.connect.data.Timestamp",
            ),
        ) => Value::Date(0),
        (Kind::Boolean, _) => Value::Bool(false),
        (Kind::Int8, _) => Value::Int8(0),
        (Kind::Int16, _) => Value::Int16(0),
        (Kind::Int32, _) => Value::Int32(0),
        (Kind::Int64, _) => Value::Int64(0),
        (Kind::Float32, _) => Value::Float32(0.0),
        (Kind::Float64, _) => Value::Float64(0.0),
        (Kind::String, name) => Value::Str(Cow::Borrowed(text(name))),
        (Kind::Bytes, _) => Value::Bytes(Cow::Borrowed(&[])),
        (Kind::Array(_), _) => Value::Array(Vec::new()),
        (Kind::Map(..), _) => Value::Map(Vec::new()),
        (Kind::Struct(fields), _) => Value::Struct(fields.iter().map(|field| of(&field.schema)).collect()),
    }
}

/// What a text of this logical type is when it is nothing.
fn text(name: Option<&str>) -> &'static str {
    match name {
        Some("io.debezium.data.Json") => "{}",
        Some("io.debezium.time.ZonedTimestamp") => "1970-01-01T00:00:00Z",
        Some("io.debezium.time.ZonedTime") => "00:00:00Z",
        Some("io.debezium.time.Interval") => "P0Y0M0DT0H0M0S",
        _ => "",
    }
}

fn scaled(zero: Decimal, schema: &Schema) -> Decimal {
    let scale = schema.parameters.iter().find(|(name, _)| *name == "scale");
    let scale = scale.and_then(|(_, scale)| scale.parse().ok());
    scale.and_then(|scale| zero.clone().with_scale(scale)).unwrap_or(zero)
}
