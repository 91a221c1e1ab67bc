//! The value of a required column for which the server did not send one (Debezium's fallback values).

use std::borrow::Cow;

use connect_data::column::{ColumnCodec, ColumnDescription, ColumnOptions, precision_and_scale};
use connect_data::{Decimal, Kind, Schema, Value};
use pg_replication::pgoutput::ColumnValue;

/// Returns the column's default, or the zero of its type.
pub(in crate::change) fn of(
    codec: &ColumnCodec,
    column: &ColumnDescription,
    options: &ColumnOptions,
) -> Value<'static> {
    codec.mapped(unmapped(codec, column, options))
}

fn unmapped(codec: &ColumnCodec, column: &ColumnDescription, options: &ColumnOptions) -> Value<'static> {
    let schema = codec.schema();
    // The zero of a domain is that of its base type.
    let type_name = column.kind.underlying().name();
    // The schemas of these types are always optional.
    if let Some(text) = geometric(&type_name).filter(|_| column.not_null) {
        return geometry(codec, text);
    }
    if schema.optional || schema.default.is_some() {
        return of_schema(schema);
    }
    match type_name.as_str() {
        "json" | "jsonb" => Value::Str(Cow::Borrowed("")),
        "numeric" => {
            let scale = precision_and_scale(column.modifier()).map(|(_, scale)| scale);
            decoded(codec, &zero_of_scale(scale))
        }
        "money" if schema.kind == Kind::String => {
            Value::Str(Cow::Owned(zero_of_scale(Some(options.money_fraction_digits.into()))))
        }
        "point" => decoded(codec, "(0,0)"),
        "date" => decoded(codec, "1970-01-01"),
        "time" => decoded(codec, "00:00:00"),
        "timestamp" => decoded(codec, "1970-01-01 00:00:00"),
        name if matches!(schema.kind, Kind::Struct(_)) => structured(name)
            .map_or_else(|| of_kind(schema), |text| without_zone(decoded(codec, text), schema)),
        _ => of_kind(schema),
    }
}

/// Returns the fallback value of a schema.
pub(super) fn of_schema(schema: &Schema) -> Value<'static> {
    if schema.optional {
        return Value::Null;
    }
    schema.default.clone().unwrap_or_else(|| of_kind(schema))
}

/// Decodes a text as a value that the server sends for the column.
fn decoded(codec: &ColumnCodec, text: &str) -> Value<'static> {
    let value = codec.decode_without_default(ColumnValue::Text(text.as_bytes()));
    value.map_or_else(|_| of_kind(codec.schema()), Value::into_owned)
}

/// Decodes a geometry with its type as the only extension, for example without whether a path is closed.
fn geometry(codec: &ColumnCodec, text: &str) -> Value<'static> {
    let mut value = decoded(codec, text);
    if let Value::Struct(parts) = &mut value
        && let Some(Value::Map(extensions)) = parts.last_mut()
    {
        extensions.truncate(1);
    }
    value
}

/// `GEOMETRYCOLLECTION EMPTY`
const EMPTY_COLLECTION: &str = "010700000000000000";

/// Returns the zero of the geometric types that are shown since Debezium 3.7, and of those of PostGIS.
fn geometric(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "line" => "{0,1,0}",
        "circle" => "<(0,0),0>",
        "box" => "(0,0),(1,1)",
        "lseg" | "path" => "[(0,0),(1,0)]",
        "polygon" => "((0,0),(1,0),(0,1))",
        "geometry" | "geography" => EMPTY_COLLECTION,
        _ => return None,
    })
}

/// Returns the zero (epoch, midnight or empty interval) of a type that `time.precision.mode=structured`
/// converts to a struct.
fn structured(type_name: &str) -> Option<&'static str> {
    Some(match type_name {
        "interval" => "00:00:00",
        "timetz" => "00:00:00+00",
        "timestamptz" => "1970-01-01 00:00:00+00",
        _ => return None,
    })
}

/// Removes the zone's name from a struct, because it is unknown.
fn without_zone(mut value: Value<'static>, schema: &Schema) -> Value<'static> {
    if let (Value::Struct(parts), Kind::Struct(fields)) = (&mut value, &schema.kind) {
        let zones = fields.iter().zip(parts).filter(|(field, _)| field.name == "zoneId");
        zones.for_each(|(_, part)| *part = Value::Null);
    }
    value
}

/// Returns zero with `scale` digits behind the decimal point.
fn zero_of_scale(scale: Option<i32>) -> String {
    let scaled = Decimal::parse("0").zip(scale).and_then(|(zero, scale)| zero.with_scale(scale));
    scaled.map_or_else(|| "0".to_owned(), |zero| zero.to_plain_string())
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
        (Kind::Untyped, _) => Value::Null,
        (Kind::Struct(fields), _) => {
            Value::Struct(fields.iter().map(|field| of_schema(&field.schema)).collect())
        }
    }
}

/// Returns the zero of a text of this logical type.
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

#[cfg(test)]
mod tests {
    use super::*;
    use connect_data::column::{DecimalHandling, TimePrecision, TypeKind};
    use pg_replication::wal::Oid;

    #[test]
    fn a_required_value_that_was_not_sent_is_the_zero_of_its_type() {
        let default = ColumnOptions::default();
        let text = ColumnOptions { decimal: DecimalHandling::String, ..default };
        let structs = ColumnOptions { time: TimePrecision::Structured, ..default };
        let iso = ColumnOptions { time: TimePrecision::IsoString, ..default };
        let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
        let date = vec![Value::Int32(1970), Value::Int8(1), Value::Int8(1), Value::Null];
        let cases = [
            ("jsonb", -1, default, Value::str("")),
            ("json", -1, default, Value::str("")),
            ("hstore", -1, default, Value::str("{}")),
            ("numeric", -1, default, Value::Struct(vec![Value::Int32(0), Value::Bytes(Cow::Borrowed(&[0]))])),
            ("numeric", 655_366, default, decimal("0.00")),
            ("numeric", -1, text, Value::str("0")),
            ("numeric", 655_366, text, Value::str("0.00")),
            ("money", -1, text, Value::str("0.00")),
            ("date", -1, structs, Value::Struct(date)),
            ("timestamp", -1, iso, Value::str("1970-01-01T00:00:00Z")),
            ("bytea", -1, default, Value::Bytes(Cow::Borrowed(&[]))),
        ];
        let line = [0.0, 1.0, 0.0].map(Value::Float64).into();
        let empty = || Value::Bytes(Cow::Borrowed(&[1, 7, 0, 0, 0, 0, 0, 0, 0]));
        let cases = cases.into_iter().chain([
            ("line", -1, default, Value::Struct(line)),
            ("geometry", -1, default, Value::Struct(vec![empty(), Value::Null, Value::Null])),
            ("geography", -1, default, Value::Struct(vec![empty(), Value::Null])),
            ("vector", 3, default, Value::Array(Vec::new())),
            ("halfvec", -1, default, Value::Array(Vec::new())),
        ]);
        for (name, type_modifier, options, zero) in cases {
            let column = ColumnDescription {
                name: "c".to_owned(),
                type_oid: Oid(1),
                type_modifier,
                kind: TypeKind::base(name),
                not_null: true,
                default: None,
                key_position: None,
            };
            let codec = ColumnCodec::new(&column, &options, None).unwrap();
            assert_eq!(of(&codec, &column, &options), zero, "{name} {options:?}");
            let base = Box::new(TypeKind::base(name));
            let kind = TypeKind::Domain { name: "d".to_owned(), base, modifier: type_modifier };
            let of_domain = ColumnDescription { kind, type_modifier: -1, ..column };
            let codec = ColumnCodec::new(&of_domain, &options, None).unwrap();
            assert_eq!(of(&codec, &of_domain, &options), zero, "domain over {name} {options:?}");
        }
    }
}
