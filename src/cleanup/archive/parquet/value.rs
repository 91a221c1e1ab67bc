//! Values of a Parquet file.

use ::parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use ::parquet::data_type::{ByteArray, FixedLenByteArray};
use ::parquet::errors::ParquetError;
use ::parquet::schema::types::Type;
use jiff::civil::{Date, DateTime, date};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use uuid::Uuid;

use crate::cleanup::archive::column::{Column, Kind};

/// Most digits that fit into the integers.
const DIGITS_OF_INT32: i32 = 9;
const DIGITS_OF_INT64: i32 = 18;
/// Bytes of a greater decimal and of a UUID.
const FIXED_BYTES: i32 = 16;

/// A value as a Parquet file has it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int32(i32),
    Int64(i64),
    Float(f32),
    Double(f64),
    Bytes(ByteArray),
    Fixed(FixedLenByteArray),
}

impl Value {
    /// Parses what PostgreSQL wrote. Returns none for what does not fit into such a column: infinity, and
    /// years before the first and after the 9999th.
    pub(super) fn parse(kind: Kind, text: &str) -> Option<Self> {
        Some(match kind {
            Kind::Bool => Self::Bool(boolean(text)?),
            Kind::Int2 => Self::Int32(text.parse::<i16>().ok()?.into()),
            Kind::Int4 => Self::Int32(text.parse().ok()?),
            Kind::Int8 => Self::Int64(text.parse().ok()?),
            Kind::Float4 => Self::Float(text.parse().ok()?),
            Kind::Float8 => Self::Double(text.parse().ok()?),
            Kind::Date => Self::Int32(days(text)?),
            Kind::Timestamp => Self::Int64(microseconds(text)?),
            Kind::Timestamptz => Self::Int64(text.parse::<Timestamp>().ok()?.as_microsecond()),
            Kind::Uuid => Self::Fixed(Uuid::parse_str(text).ok()?.into_bytes().to_vec().into()),
            Kind::Bytea => Self::Bytes(bytes(text)?.into()),
            Kind::Json | Kind::Text => Self::Bytes(text.as_bytes().to_vec().into()),
            Kind::Decimal { precision, scale } => decimal(text, precision, scale)?,
        })
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "t" => Some(true),
        "f" => Some(false),
        _ => None,
    }
}

fn days(text: &str) -> Option<i32> {
    let day: Date = text.parse().ok()?;
    Some(date(1970, 1, 1).until((Unit::Day, day)).ok()?.get_days())
}

fn microseconds(text: &str) -> Option<i64> {
    let time: DateTime = text.parse().ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_microsecond())
}

/// Parses `\x`, then two digits for each byte.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4) | digit(low)?);
    let bytes = pairs.iter().map(byte).collect();
    if rest.is_empty() { bytes } else { None }
}

/// Parses a decimal, for which PostgreSQL writes as many digits behind the point as the type has.
fn decimal(text: &str, precision: i32, scale: i32) -> Option<Value> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if usize::try_from(scale).ok()? != fraction.len() {
        return None;
    }
    let unscaled: i128 = format!("{whole}{fraction}").parse().ok()?;
    if unscaled.unsigned_abs() >= 10_u128.checked_pow(u32::try_from(precision).ok()?)? {
        return None;
    }
    Some(match width(precision) {
        Physical::INT32 => Value::Int32(unscaled.try_into().ok()?),
        Physical::INT64 => Value::Int64(unscaled.try_into().ok()?),
        _ => Value::Fixed(unscaled.to_be_bytes().to_vec().into()),
    })
}

const fn width(precision: i32) -> Physical {
    if precision <= DIGITS_OF_INT32 {
        Physical::INT32
    } else if precision <= DIGITS_OF_INT64 {
        Physical::INT64
    } else {
        Physical::FIXED_LEN_BYTE_ARRAY
    }
}

/// Returns the physical type of a kind's values.
pub(super) const fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::Bool => Physical::BOOLEAN,
        Kind::Int2 | Kind::Int4 | Kind::Date => Physical::INT32,
        Kind::Int8 | Kind::Timestamp | Kind::Timestamptz => Physical::INT64,
        Kind::Float4 => Physical::FLOAT,
        Kind::Float8 => Physical::DOUBLE,
        Kind::Uuid => Physical::FIXED_LEN_BYTE_ARRAY,
        Kind::Json | Kind::Bytea | Kind::Text => Physical::BYTE_ARRAY,
        Kind::Decimal { precision, .. } => width(precision),
    }
}

/// Returns the logical type of a kind's values.
fn logical(kind: Kind) -> Option<LogicalType> {
    match kind {
        Kind::Bool | Kind::Int4 | Kind::Int8 | Kind::Float4 | Kind::Float8 | Kind::Bytea => None,
        Kind::Int2 => Some(LogicalType::integer(16, true)),
        Kind::Date => Some(LogicalType::Date),
        Kind::Timestamp => Some(LogicalType::timestamp(false, TimeUnit::MICROS)),
        Kind::Timestamptz => Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        Kind::Uuid => Some(LogicalType::Uuid),
        Kind::Json => Some(LogicalType::Json),
        Kind::Text => Some(LogicalType::String),
        Kind::Decimal { precision, scale } => Some(LogicalType::decimal(scale, precision)),
    }
}

/// Returns the column in the schema of the file.
pub(super) fn field(column: &Column) -> Result<Type, ParquetError> {
    let kind = column.kind;
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(&column.name, physical(kind))
        .with_repetition(repetition)
        .with_logical_type(logical(kind));
    let field = match kind {
        Kind::Decimal { precision, scale } => field.with_precision(precision).with_scale(scale),
        _ => field,
    };
    match physical(kind) {
        Physical::FIXED_LEN_BYTE_ARRAY => field.with_length(FIXED_BYTES).build(),
        _ => field.build(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(bytes: [u8; 16]) -> Value {
        Value::Fixed(bytes.to_vec().into())
    }

    fn text(text: &str) -> Value {
        Value::Bytes(text.as_bytes().to_vec().into())
    }

    #[test]
    fn values_are_what_postgresql_wrote() {
        let decimal = |precision, scale| Kind::Decimal { precision, scale };
        let cases = [
            (Kind::Bool, "t", Value::Bool(true)),
            (Kind::Int2, "-32768", Value::Int32(-32_768)),
            (Kind::Int4, "2147483647", Value::Int32(i32::MAX)),
            (Kind::Int8, "-9223372036854775808", Value::Int64(i64::MIN)),
            (Kind::Float4, "1.1754944e-38", Value::Float(f32::MIN_POSITIVE)),
            (Kind::Float8, "-Infinity", Value::Double(f64::NEG_INFINITY)),
            (Kind::Date, "1969-12-31", Value::Int32(-1)),
            (Kind::Date, "9999-12-31", Value::Int32(2_932_896)),
            (Kind::Timestamp, "1970-01-01 00:00:00.000001", Value::Int64(1)),
            (Kind::Timestamp, "0001-01-01 00:00:00", Value::Int64(-62_135_596_800_000_000)),
            (Kind::Timestamptz, "2000-01-01 00:00:00+00", Value::Int64(946_684_800_000_000)),
            (Kind::Timestamptz, "2000-01-01 05:30:00.5+05:30", Value::Int64(946_684_800_500_000)),
            (Kind::Uuid, "00000000-0000-0000-0000-0000000000ff", fixed(255_u128.to_be_bytes())),
            (Kind::Bytea, "\\x", Value::Bytes(Vec::new().into())),
            (Kind::Bytea, "\\x00fF", Value::Bytes(vec![0, 255].into())),
            (Kind::Json, "{\"a\": [1]}", text("{\"a\": [1]}")),
            (Kind::Text, "", text("")),
            (decimal(5, 2), "-123.45", Value::Int32(-12_345)),
            (decimal(18, 0), "999999999999999999", Value::Int64(999_999_999_999_999_999)),
            (decimal(38, 38), "-0.00000000000000000000000000000000000001", fixed((-1_i128).to_be_bytes())),
        ];
        for (kind, text, expected) in cases {
            assert_eq!(Value::parse(kind, text), Some(expected), "{kind:?} {text}");
        }
        assert!(matches!(Value::parse(Kind::Float8, "NaN"), Some(Value::Double(value)) if value.is_nan()));
    }

    #[test]
    fn what_has_no_place_is_not_rounded() {
        let decimal = |precision, scale| Kind::Decimal { precision, scale };
        for (kind, text) in [
            (Kind::Bool, "true"),
            (Kind::Int2, "32768"),
            (Kind::Date, "infinity"),
            (Kind::Date, "0044-03-15 BC"),
            (Kind::Date, "12345-01-01"),
            (Kind::Timestamp, "-infinity"),
            (Kind::Timestamptz, "0044-03-15 00:00:00+00 BC"),
            (Kind::Bytea, "\\x0"),
            (Kind::Bytea, "\\x0g"),
            (Kind::Bytea, "abc"),
            (Kind::Uuid, "x"),
            (decimal(5, 2), "NaN"),
            (decimal(5, 2), "1.5"),
            (decimal(3, 0), "1000"),
        ] {
            assert_eq!(Value::parse(kind, text), None, "{kind:?} {text}");
        }
    }
}
