//! Dates, times and timestamps.

use std::borrow::Cow;

use super::calendar::{
    MICROS_PER_DAY, MICROS_PER_MINUTE, MICROS_PER_SECOND, Moment, digit, micros_of_clock, parse_date,
    parse_timestamp, parse_timestamptz, parse_timetz, write_clock, write_date, write_micros,
};
use super::structured;
use crate::column::options::TimePrecision;
use crate::{Kind, Schema, Value};

/// Debezium's values for `infinity` and `-infinity`: pgjdbc's limits in milliseconds, the years of these limits as
/// text, and in days the numbers that it calculates from the server's limits.
const INFINITY_MILLIS: i64 = 9_223_372_036_825_200_000;
const NEGATIVE_INFINITY_MILLIS: i64 = -9_223_372_036_832_400_000;
const INFINITY_ISO: &str = "+292278994-08-16T23:00:00Z";
const NEGATIVE_INFINITY_ISO: &str = "-292275055-05-16T23:00:00Z";
const INFINITY_DAYS: i32 = 2_146_033_979;
const NEGATIVE_INFINITY_DAYS: i32 = -2_147_472_691;
const MICROS_PER_MILLI: i64 = 1000;
const MILLIS_PER_DAY: i64 = MICROS_PER_DAY / MICROS_PER_MILLI;

/// Text format of a date or time, and its Connect form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum TemporalFormat {
    /// Days since the epoch.
    Days,
    IsoDate,
    ConnectDate,
    StructuredDate,
    Time {
        unit: Unit,
        /// True to drop the microseconds, as for elements of arrays in Debezium before 3.7.1, which reads them as
        /// `java.sql.Time`.
        whole_millis: bool,
    },
    TimeTz,
    /// With this number of fraction digits of a second.
    StructuredTimeTz(u8),
    Timestamp(Unit),
    TimestampTz {
        digits: u8,
    },
    StructuredTimestampTz(u8),
}

/// Unit of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum Unit {
    Millis,
    Micros,
    Nanos,
    Iso,
    /// Milliseconds, in a `java.util.Date`.
    Connect,
    /// A struct, with this number of fraction digits of a second.
    Structured(u8),
}

/// Returns the format and schema of a `date`.
pub(in crate::column) fn date_format(precision: TimePrecision) -> (TemporalFormat, Schema) {
    match precision {
        TimePrecision::Connect => {
            (TemporalFormat::ConnectDate, Schema::named(Kind::Int32, "org.apache.kafka.connect.data.Date"))
        }
        TimePrecision::IsoString => {
            (TemporalFormat::IsoDate, Schema::named(Kind::String, "io.debezium.time.IsoDate"))
        }
        TimePrecision::Structured => (TemporalFormat::StructuredDate, structured::date_schema()),
        _ => (TemporalFormat::Days, Schema::named(Kind::Int32, "io.debezium.time.Date")),
    }
}

/// Returns the format and schema of a `time(p)`.
pub(in crate::column) fn time_format(modifier: i32, precision: TimePrecision) -> (TemporalFormat, Schema) {
    let unit = match precision {
        TimePrecision::AdaptiveTimeMicroseconds => Unit::Micros,
        other => unit(modifier, other),
    };
    let schema = match unit {
        Unit::Millis => Schema::named(Kind::Int32, "io.debezium.time.Time"),
        Unit::Micros => Schema::named(Kind::Int64, "io.debezium.time.MicroTime"),
        Unit::Nanos => Schema::named(Kind::Int64, "io.debezium.time.NanoTime"),
        Unit::Iso => Schema::named(Kind::String, "io.debezium.time.IsoTime"),
        Unit::Connect => Schema::named(Kind::Int32, "org.apache.kafka.connect.data.Time"),
        Unit::Structured(_) => structured::time_schema(),
    };
    (TemporalFormat::Time { unit, whole_millis: false }, schema)
}

/// Returns the format and schema of a `timetz`.
pub(in crate::column) fn timetz_format(modifier: i32, precision: TimePrecision) -> (TemporalFormat, Schema) {
    if precision == TimePrecision::Structured {
        let digits = structured::precision(modifier);
        return (TemporalFormat::StructuredTimeTz(digits), structured::timetz_schema());
    }
    (TemporalFormat::TimeTz, Schema::named(Kind::String, "io.debezium.time.ZonedTime"))
}

/// Returns the format and schema of a `timestamp(p)`.
pub(in crate::column) fn timestamp_format(
    modifier: i32,
    precision: TimePrecision,
) -> (TemporalFormat, Schema) {
    let unit = unit(modifier, precision);
    let schema = match unit {
        Unit::Millis => Schema::named(Kind::Int64, "io.debezium.time.Timestamp"),
        Unit::Micros => Schema::named(Kind::Int64, "io.debezium.time.MicroTimestamp"),
        Unit::Nanos => Schema::named(Kind::Int64, "io.debezium.time.NanoTimestamp"),
        Unit::Iso => Schema::named(Kind::String, "io.debezium.time.IsoTimestamp"),
        Unit::Connect => Schema::named(Kind::Int64, "org.apache.kafka.connect.data.Timestamp"),
        Unit::Structured(_) => structured::timestamp_schema(),
    };
    (TemporalFormat::Timestamp(unit), schema)
}

/// Returns the format and schema of a `timestamptz(p)`.
pub(in crate::column) fn timestamptz_format(
    modifier: i32,
    precision: TimePrecision,
) -> (TemporalFormat, Schema) {
    let digits = structured::precision(modifier);
    if precision == TimePrecision::Structured {
        return (TemporalFormat::StructuredTimestampTz(digits), structured::timestamptz_schema());
    }
    (TemporalFormat::TimestampTz { digits }, Schema::named(Kind::String, "io.debezium.time.ZonedTimestamp"))
}

fn unit(modifier: i32, precision: TimePrecision) -> Unit {
    match precision {
        TimePrecision::Adaptive | TimePrecision::AdaptiveTimeMicroseconds => match modifier {
            0..=3 => Unit::Millis,
            _ => Unit::Micros,
        },
        TimePrecision::Microseconds => Unit::Micros,
        TimePrecision::Nanoseconds => Unit::Nanos,
        TimePrecision::IsoString => Unit::Iso,
        TimePrecision::Connect => Unit::Connect,
        TimePrecision::Structured => Unit::Structured(structured::precision(modifier)),
    }
}

impl TemporalFormat {
    /// Returns the format that drops the microseconds of times.
    pub(in crate::column) const fn with_whole_millis(self) -> Self {
        match self {
            Self::Time { unit, .. } => Self::Time { unit, whole_millis: true },
            other => other,
        }
    }

    /// Reads a value.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        match self {
            Self::Days => days(text).map(Value::Int32),
            Self::ConnectDate => days(text).map(|days| Value::Date(i64::from(days) * MILLIS_PER_DAY)),
            Self::IsoDate => {
                let mut iso = String::new();
                write_date(&mut iso, i64::from(days(text)?));
                iso.push('Z');
                Some(owned(iso))
            }
            Self::StructuredDate => structured::date(text, parse_date),
            Self::Time { unit, whole_millis } => {
                let micros = micros_of_clock(text).filter(|micros| *micros <= MICROS_PER_DAY)?;
                time(if whole_millis { micros - micros % MICROS_PER_MILLI } else { micros }, unit)
            }
            Self::TimeTz => {
                let (micros, offset) = parse_timetz(text)?;
                zoned_time(micros, offset).map(owned)
            }
            Self::StructuredTimeTz(digits) => {
                let (micros, offset) = parse_timetz(text)?;
                structured::timetz(micros, offset, digits)
            }
            Self::Timestamp(unit) => timestamp(parse_timestamp(text)?, unit),
            Self::TimestampTz { digits } => Some(match parse_timestamptz(text)? {
                Moment::Infinity => Value::str("infinity"),
                Moment::NegativeInfinity => Value::str("-infinity"),
                Moment::At(micros) => owned(zoned_timestamp(micros, digits)),
            }),
            Self::StructuredTimestampTz(digits) => structured::timestamptz(parse_timestamptz(text)?, digits),
        }
    }
}

const fn owned(text: String) -> Value<'static> {
    Value::Str(Cow::Owned(text))
}

fn days(text: &str) -> Option<i32> {
    match text {
        "infinity" => Some(INFINITY_DAYS),
        "-infinity" => Some(NEGATIVE_INFINITY_DAYS),
        _ => i32::try_from(parse_date(text)?).ok(),
    }
}

fn time(micros: i64, unit: Unit) -> Option<Value<'static>> {
    Some(match unit {
        Unit::Millis => Value::Int32(i32::try_from(micros / MICROS_PER_MILLI).ok()?),
        Unit::Micros => Value::Int64(micros),
        Unit::Nanos => Value::Int64(micros * 1000),
        Unit::Iso => owned(iso_time(micros % MICROS_PER_DAY)),
        Unit::Connect => Value::Date(micros / MICROS_PER_MILLI),
        Unit::Structured(digits) => return structured::time(micros, digits),
    })
}

fn timestamp(moment: Moment, unit: Unit) -> Option<Value<'static>> {
    let micros = match moment {
        Moment::At(micros) => micros,
        Moment::Infinity => return infinity(moment, unit, INFINITY_MILLIS, i64::MAX, INFINITY_ISO),
        Moment::NegativeInfinity => {
            return infinity(moment, unit, NEGATIVE_INFINITY_MILLIS, i64::MIN, NEGATIVE_INFINITY_ISO);
        }
    };
    Some(match unit {
        Unit::Millis => Value::Int64(micros.div_euclid(MICROS_PER_MILLI)),
        Unit::Connect => Value::Date(micros.div_euclid(MICROS_PER_MILLI)),
        Unit::Micros => Value::Int64(micros),
        // Nanoseconds in 64 bits end in the year 2262.
        Unit::Nanos => Value::Int64(micros.checked_mul(1000)?),
        Unit::Iso => {
            let mut iso = iso_date_and_clock(micros);
            write_micros(&mut iso, micros.rem_euclid(MICROS_PER_SECOND).unsigned_abs());
            iso.push('Z');
            owned(iso)
        }
        Unit::Structured(digits) => return structured::timestamp(moment, digits),
    })
}

/// Returns an infinity, which each unit expresses by its own limit.
fn infinity(
    moment: Moment,
    unit: Unit,
    millis: i64,
    limit: i64,
    iso: &'static str,
) -> Option<Value<'static>> {
    match unit {
        Unit::Millis => Some(Value::Int64(millis)),
        Unit::Connect => Some(Value::Date(millis)),
        Unit::Micros | Unit::Nanos => Some(Value::Int64(limit)),
        Unit::Iso => Some(Value::str(iso)),
        Unit::Structured(digits) => structured::timestamp(moment, digits),
    }
}

/// Formats a time of day in UTC. `24:00` is retained only if the offset is zero; an offset with seconds has no form.
fn zoned_time(micros: i64, offset: i64) -> Option<String> {
    if offset % MICROS_PER_MINUTE != 0 {
        return None;
    }
    let is_end_of_day = micros == MICROS_PER_DAY && offset == 0;
    Some(iso_time(if is_end_of_day { micros } else { (micros - offset).rem_euclid(MICROS_PER_DAY) }))
}

/// Formats `03:04:05.12Z`, without trailing zeros in the fraction.
fn iso_time(micros_of_day: i64) -> String {
    let mut iso = String::new();
    write_clock(&mut iso, micros_of_day);
    write_micros(&mut iso, (micros_of_day % MICROS_PER_SECOND).unsigned_abs());
    iso.push('Z');
    iso
}

/// Formats `2024-01-02T03:04:05.120000Z`, with exactly `digits` fraction digits. If `digits` is 0, the fraction has no
/// trailing zeros: a column without fraction digits may have a default with some, which the server does not round.
fn zoned_timestamp(micros: i64, digits: u8) -> String {
    const PLACES: [i64; 6] = [100_000, 10_000, 1_000, 100, 10, 1];
    let mut iso = iso_date_and_clock(micros);
    let fraction = micros.rem_euclid(MICROS_PER_SECOND);
    let digits = match digits {
        0 => PLACES.iter().filter(|place| fraction % (*place * 10) != 0).count(),
        digits => digits.into(),
    };
    if digits > 0 {
        iso.push('.');
        iso.extend(PLACES.into_iter().take(digits).map(|place| digit(fraction / place)));
    }
    iso.push('Z');
    iso
}

fn iso_date_and_clock(micros: i64) -> String {
    let mut iso = String::with_capacity("2024-01-02T03:04:05.123456Z".len());
    write_date(&mut iso, micros.div_euclid(MICROS_PER_DAY));
    iso.push('T');
    write_clock(&mut iso, micros.rem_euclid(MICROS_PER_DAY));
    iso
}
