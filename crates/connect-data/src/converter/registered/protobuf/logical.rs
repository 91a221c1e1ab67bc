//! Connect's logical types, which are messages defined by Google and Confluent.

use super::wire::{put_integer, put_message, put_present};
use super::{ConvertError, SchemaError, unsupported};
use crate::java::date::{calendar_date, clock};
use crate::{Decimal, Schema, Value};

const MILLIS_PER_DAY: i64 = 86_400_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
/// Range of a `google.protobuf.Timestamp`: 0001-01-01 to 9999-12-31.
const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// A logical type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Logical {
    Decimal,
    Date,
    Time,
    Timestamp,
}

impl Logical {
    /// Returns the logical type of a schema.
    pub(super) fn of(schema: &Schema) -> Option<Self> {
        let name = schema.name()?.strip_prefix("org.apache.kafka.connect.data.")?;
        Some(match name {
            "Decimal" => Self::Decimal,
            "Date" => Self::Date,
            "Time" => Self::Time,
            "Timestamp" => Self::Timestamp,
            _ => return None,
        })
    }

    /// Returns the name of its message.
    pub(super) const fn message(self) -> &'static str {
        match self {
            Self::Decimal => "confluent.type.Decimal",
            Self::Date => "google.type.Date",
            Self::Time => "google.type.TimeOfDay",
            Self::Timestamp => "google.protobuf.Timestamp",
        }
    }

    /// Returns the file that defines its message.
    pub(super) const fn file(self) -> &'static str {
        match self {
            Self::Decimal => "confluent/type/decimal.proto",
            Self::Date => "google/type/date.proto",
            Self::Time => "google/type/timeofday.proto",
            Self::Timestamp => "google/protobuf/timestamp.proto",
        }
    }

    /// Appends a value of this schema as field `number`.
    pub(super) fn write(
        self,
        out: &mut Vec<u8>,
        number: u32,
        schema: &Schema,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        put_message(out, number, |out| match (self, value) {
            (Self::Decimal, Value::Decimal(decimal)) => write_decimal(out, decimal),
            (Self::Date, Value::Date(millis)) => write_date(out, *millis),
            (Self::Time, Value::Date(millis)) => write_time(out, *millis),
            (Self::Timestamp, Value::Date(millis)) => write_timestamp(out, *millis),
            _ => Err(unsupported(schema).into()),
        })
    }
}

/// Reports whether values of this schema are messages of a logical type.
pub(super) fn is_message(schema: &Schema) -> bool {
    Logical::of(schema).is_some()
}

fn write_decimal(out: &mut Vec<u8>, decimal: &Decimal) -> Result<(), ConvertError> {
    put_present(out, 1, &decimal.unscaled_bytes());
    put_integer(out, 2, i64::try_from(decimal.precision()).unwrap_or(i64::MAX));
    put_integer(out, 3, decimal.scale().into());
    Ok(())
}

fn write_date(out: &mut Vec<u8>, millis: i64) -> Result<(), ConvertError> {
    if millis.rem_euclid(MILLIS_PER_DAY) != 0 {
        return Err(SchemaError::OutOfRange("date at midnight").into());
    }
    let (year, month, day) = calendar_date(millis.div_euclid(MILLIS_PER_DAY));
    // Java's calendar counts the years before Christ without a sign.
    put_integer(out, 1, if year > 0 { year } else { 1 - year });
    put_integer(out, 2, month);
    put_integer(out, 3, day);
    Ok(())
}

fn write_time(out: &mut Vec<u8>, millis: i64) -> Result<(), ConvertError> {
    if !(0..=MILLIS_PER_DAY).contains(&millis) {
        return Err(SchemaError::OutOfRange("time of day").into());
    }
    let [hours, minutes, seconds, fraction] = clock(millis);
    put_integer(out, 1, hours);
    put_integer(out, 2, minutes);
    put_integer(out, 3, seconds);
    put_integer(out, 4, fraction.saturating_mul(NANOS_PER_MILLI));
    Ok(())
}

fn write_timestamp(out: &mut Vec<u8>, millis: i64) -> Result<(), ConvertError> {
    let seconds = millis.div_euclid(1000);
    if !TIMESTAMP_SECONDS.contains(&seconds) {
        return Err(SchemaError::OutOfRange("timestamp between the years 1 and 9999").into());
    }
    put_integer(out, 1, seconds);
    put_integer(out, 2, millis.rem_euclid(1000).saturating_mul(NANOS_PER_MILLI));
    Ok(())
}
