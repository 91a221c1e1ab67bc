use std::borrow::Cow;

use super::calendar::{
    MICROS_PER_DAY, MICROS_PER_SECOND, Moment, micros_of_clock, parse_date, parse_timestamp,
    parse_timestamptz, parse_timetz, write_clock, write_date, write_micros,
};
use super::options::TimePrecision;
use crate::connect::{Kind, Schema, Value};

/// What Debezium shows for `infinity` and `-infinity`, in microseconds (pgjdbc's limits) and in days (the server's
/// limits, wrapped around when they are moved from 2000 to 1970).
const INFINITY_MICROS: i64 = 9_223_372_036_825_200_000;
const NEGATIVE_INFINITY_MICROS: i64 = -9_223_372_036_832_400_000;
const INFINITY_DAYS: i32 = -2_147_472_692;
const NEGATIVE_INFINITY_DAYS: i32 = -2_147_472_691;
/// Digits of a second's fraction that `timestamptz` has when its precision is not given.
const FULL_PRECISION: u8 = 6;
const MICROS_PER_MILLI: i64 = 1000;
const MILLIS_PER_DAY: i64 = MICROS_PER_DAY / MICROS_PER_MILLI;

/// How a date or time is read, and what it becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TemporalFormat {
    /// Days since the epoch.
    Days,
    IsoDate,
    ConnectDate,
    Time {
        unit: Unit,
        /// Elements of arrays lose their microseconds on Debezium's way through `java.sql.Time`.
        whole_millis: bool,
    },
    TimeTz {
        /// Elements of arrays lose their fractions on Debezium's way through `java.sql.Time`.
        whole_seconds: bool,
    },
    Timestamp(Unit),
    TimestampTz {
        digits: u8,
    },
}

/// What a time is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
    Iso,
    /// Milliseconds, in a `java.util.Date`.
    Connect,
}

/// `date`
pub(super) const fn date_format(precision: TimePrecision) -> (TemporalFormat, Schema) {
    match precision {
        TimePrecision::Connect => {
            (TemporalFormat::ConnectDate, Schema::named(Kind::Int32, "org.apache.kafka.connect.data.Date"))
        }
        TimePrecision::IsoString => {
            (TemporalFormat::IsoDate, Schema::named(Kind::String, "io.debezium.time.IsoDate"))
        }
        _ => (TemporalFormat::Days, Schema::named(Kind::Int32, "io.debezium.time.Date")),
    }
}

/// `time(p)`
pub(super) const fn time_format(modifier: i32, precision: TimePrecision) -> (TemporalFormat, Schema) {
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
    };
    (TemporalFormat::Time { unit, whole_millis: false }, schema)
}

/// `timetz`
pub(super) const fn timetz_format() -> (TemporalFormat, Schema) {
    (
        TemporalFormat::TimeTz { whole_seconds: false },
        Schema::named(Kind::String, "io.debezium.time.ZonedTime"),
    )
}

/// `timestamp(p)`
pub(super) const fn timestamp_format(modifier: i32, precision: TimePrecision) -> (TemporalFormat, Schema) {
    let unit = unit(modifier, precision);
    let schema = match unit {
        Unit::Millis => Schema::named(Kind::Int64, "io.debezium.time.Timestamp"),
        Unit::Micros => Schema::named(Kind::Int64, "io.debezium.time.MicroTimestamp"),
        Unit::Nanos => Schema::named(Kind::Int64, "io.debezium.time.NanoTimestamp"),
        Unit::Iso => Schema::named(Kind::String, "io.debezium.time.IsoTimestamp"),
        Unit::Connect => Schema::named(Kind::Int64, "org.apache.kafka.connect.data.Timestamp"),
    };
    (TemporalFormat::Timestamp(unit), schema)
}

/// `timestamptz(p)`
pub(super) fn timestamptz_format(modifier: i32) -> (TemporalFormat, Schema) {
    let digits =
        u8::try_from(modifier).ok().filter(|digits| *digits <= FULL_PRECISION).unwrap_or(FULL_PRECISION);
    (TemporalFormat::TimestampTz { digits }, Schema::named(Kind::String, "io.debezium.time.ZonedTimestamp"))
}

const fn unit(modifier: i32, precision: TimePrecision) -> Unit {
    match precision {
        TimePrecision::Adaptive | TimePrecision::AdaptiveTimeMicroseconds => match modifier {
            0..=3 => Unit::Millis,
            _ => Unit::Micros,
        },
        TimePrecision::Microseconds => Unit::Micros,
        TimePrecision::Nanoseconds => Unit::Nanos,
        TimePrecision::IsoString => Unit::Iso,
        TimePrecision::Connect => Unit::Connect,
    }
}

impl TemporalFormat {
    /// The format of the same type as an element of an array.
    pub(super) const fn of_array_elements(self) -> Self {
        match self {
            Self::Time { unit, .. } => Self::Time { unit, whole_millis: true },
            Self::TimeTz { .. } => Self::TimeTz { whole_seconds: true },
            other => other,
        }
    }

    /// Reads a value.
    pub(super) fn decode(self, text: &str) -> Option<Value<'static>> {
        match self {
            Self::Days => days(text).map(Value::Int32),
            Self::ConnectDate => days(text).map(|days| Value::Date(i64::from(days) * MILLIS_PER_DAY)),
            Self::IsoDate => {
                let mut iso = String::new();
                write_date(&mut iso, i64::from(days(text)?));
                iso.push('Z');
                Some(owned(iso))
            }
            Self::Time { unit, whole_millis } => {
                let micros = micros_of_clock(text).filter(|micros| *micros <= MICROS_PER_DAY)?;
                time(if whole_millis { micros - micros % MICROS_PER_MILLI } else { micros }, unit)
            }
            Self::TimeTz { whole_seconds } => {
                let micros = parse_timetz(text)?;
                let fraction = if whole_seconds { micros % MICROS_PER_SECOND } else { 0 };
                Some(owned(iso_time(micros - fraction)))
            }
            Self::Timestamp(unit) => timestamp(parse_timestamp(text)?, unit),
            Self::TimestampTz { digits } => Some(match parse_timestamptz(text)? {
                Moment::Infinity => Value::str("infinity"),
                Moment::NegativeInfinity => Value::str("-infinity"),
                Moment::At(micros) => owned(zoned_timestamp(micros, digits)),
            }),
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
    })
}

fn timestamp(moment: Moment, unit: Unit) -> Option<Value<'static>> {
    let micros = match (moment, unit) {
        (Moment::Infinity, Unit::Nanos) => return Some(Value::Int64(i64::MAX)),
        (Moment::NegativeInfinity, Unit::Nanos) => return Some(Value::Int64(i64::MIN)),
        (Moment::Infinity, _) => INFINITY_MICROS,
        (Moment::NegativeInfinity, _) => NEGATIVE_INFINITY_MICROS,
        (Moment::At(micros), _) => micros,
    };
    Some(match unit {
        Unit::Millis => Value::Int64(micros.div_euclid(MICROS_PER_MILLI)),
        Unit::Connect => Value::Date(micros.div_euclid(MICROS_PER_MILLI)),
        Unit::Micros => Value::Int64(micros),
        // 64 bits of nanoseconds end in the year 2262.
        Unit::Nanos => Value::Int64(micros.checked_mul(1000)?),
        Unit::Iso => {
            let mut iso = iso_date_and_clock(micros);
            write_micros(&mut iso, micros.rem_euclid(MICROS_PER_SECOND).unsigned_abs());
            iso.push('Z');
            owned(iso)
        }
    })
}

/// `03:04:05.12Z`, with as few digits as it takes.
fn iso_time(micros_of_day: i64) -> String {
    let mut iso = String::new();
    write_clock(&mut iso, micros_of_day);
    write_micros(&mut iso, (micros_of_day % MICROS_PER_SECOND).unsigned_abs());
    iso.push('Z');
    iso
}

/// `2024-01-02T03:04:05.120000Z`, with exactly as many digits as the column has.
fn zoned_timestamp(micros: i64, digits: u8) -> String {
    let mut iso = iso_date_and_clock(micros);
    let fraction = format!("{:06}", micros.rem_euclid(MICROS_PER_SECOND));
    if digits > 0 {
        iso.push('.');
        iso.extend(fraction.chars().take(usize::from(digits)));
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
