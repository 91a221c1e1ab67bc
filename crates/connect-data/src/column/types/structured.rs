//! `time.precision.mode=structured`: a date, a time or an interval as a struct, with a field for each part.

use super::calendar::{MICROS_PER_DAY, MICROS_PER_MINUTE, MICROS_PER_SECOND, Moment, civil_date};
use crate::column::format::nullable;
use crate::{Kind, Schema, Value};

const MICROS_PER_HOUR: i64 = 60 * MICROS_PER_MINUTE;
const NANOS_PER_MICRO: i64 = 1000;
/// Digits of a second's fraction in a type without a precision.
const FULL_PRECISION: u8 = 6;

type Part = (&'static str, Kind);
const DATE: [Part; 3] = [("year", Kind::Int32), ("month", Kind::Int8), ("day", Kind::Int8)];
const CLOCK: [Part; 4] =
    [("hour", Kind::Int8), ("minute", Kind::Int8), ("second", Kind::Int8), ("nanos", Kind::Int32)];
const OFFSET: Part = ("offsetSeconds", Kind::Int32);
const ZONE: Part = ("zoneId", Kind::String);
/// Field of an infinity's name.
const SPECIAL: Part = ("specialValue", Kind::String);
const PRECISION: Part = ("precision", Kind::Int32);
const INTERVAL: [Part; 7] = [
    ("years", Kind::Int32),
    ("months", Kind::Int32),
    ("days", Kind::Int32),
    ("hours", Kind::Int32),
    ("minutes", Kind::Int32),
    ("seconds", Kind::Int64),
    ("nanos", Kind::Int32),
];

/// Returns the number of fraction digits of a second, from the type's modifier.
pub(in crate::column) fn precision(modifier: i32) -> u8 {
    u8::try_from(modifier).ok().filter(|digits| *digits <= FULL_PRECISION).unwrap_or(FULL_PRECISION)
}

/// Returns the number of fraction digits of an interval's seconds, from the lower half of its modifier. The half is all
/// ones (65535) in a type that restricts the fields without a precision.
pub(super) fn interval_precision(modifier: i32) -> i32 {
    if modifier < 0 { FULL_PRECISION.into() } else { modifier & 0xFFFF }
}

pub(super) fn date_schema() -> Schema {
    schema("io.debezium.time.StructuredDate", &[&DATE, &[SPECIAL]])
}

pub(super) fn time_schema() -> Schema {
    schema("io.debezium.time.StructuredTime", &[&CLOCK, &[PRECISION]])
}

pub(super) fn timetz_schema() -> Schema {
    schema("io.debezium.time.StructuredZonedTime", &[&CLOCK, &[OFFSET, PRECISION]])
}

pub(super) fn timestamp_schema() -> Schema {
    schema("io.debezium.time.StructuredTimestamp", &[&DATE, &CLOCK, &[SPECIAL, PRECISION]])
}

pub(super) fn timestamptz_schema() -> Schema {
    let zoned = [OFFSET, ZONE, SPECIAL, PRECISION];
    schema("io.debezium.time.StructuredZonedTimestamp", &[&DATE, &CLOCK, &zoned])
}

pub(super) fn interval_schema() -> Schema {
    schema("io.debezium.time.StructuredDuration", &[&INTERVAL, &[PRECISION]])
}

fn schema(name: &'static str, groups: &[&[Part]]) -> Schema {
    let parts = groups.iter().copied().flatten();
    Schema::named(Kind::Struct(parts.map(|(name, kind)| nullable(name, kind.clone())).collect()), name)
}

/// Reads a `date`: an infinity, or a text that `days` converts to days since the epoch.
pub(in crate::column) fn date(text: &str, days: impl Fn(&str) -> Option<i64>) -> Option<Value<'static>> {
    let special = match text {
        "infinity" => Some(special(Moment::Infinity)),
        "-infinity" => Some(special(Moment::NegativeInfinity)),
        _ => None,
    };
    Some(structure(match special {
        Some(special) => [nulls(DATE.len()), vec![special]],
        None => [date_parts(days(text)?)?, vec![Value::Null]],
    }))
}

/// Returns a `time`. The end of a day, `24:00`, has no form.
pub(in crate::column) fn time(micros: i64, digits: u8) -> Option<Value<'static>> {
    let micros = Some(micros).filter(|micros| *micros < MICROS_PER_DAY)?;
    Some(structure([clock_parts(micros)?, vec![precision_part(digits)]]))
}

/// Returns a `timetz` in its local time, with its offset from UTC.
pub(in crate::column) fn timetz(micros: i64, offset: i64, digits: u8) -> Option<Value<'static>> {
    let offset = i32::try_from(offset / MICROS_PER_SECOND).ok()?;
    Some(structure([clock_parts(micros)?, vec![Value::Int32(offset), precision_part(digits)]]))
}

pub(in crate::column) fn timestamp(moment: Moment, digits: u8) -> Option<Value<'static>> {
    let (parts, special) = moment_parts(moment)?;
    Some(structure([parts, vec![special, precision_part(digits)]]))
}

/// Returns a `timestamptz`, in UTC.
pub(in crate::column) fn timestamptz(moment: Moment, digits: u8) -> Option<Value<'static>> {
    let (parts, special) = moment_parts(moment)?;
    let zone =
        if special.is_null() { [Value::Int32(0), Value::str("Z")] } else { [Value::Null, Value::Null] };
    Some(structure([parts, zone.into(), vec![special, precision_part(digits)]]))
}

/// Returns an `interval`: years, months, days, hours and minutes, then its seconds from microseconds.
pub(in crate::column) fn interval(parts: [i64; 5], micros: i64, digits: i32) -> Option<Value<'static>> {
    let mut values = Vec::with_capacity(INTERVAL.len() + 1);
    for part in parts {
        values.push(Value::Int32(i32::try_from(part).ok()?));
    }
    values.push(Value::Int64(micros / MICROS_PER_SECOND));
    values.push(Value::Int32(i32::try_from(micros % MICROS_PER_SECOND * NANOS_PER_MICRO).ok()?));
    values.push(Value::Int32(digits));
    Some(Value::Struct(values))
}

/// Returns the parts of a moment, and the name of an infinity.
fn moment_parts(moment: Moment) -> Option<(Vec<Value<'static>>, Value<'static>)> {
    let Moment::At(micros) = moment else {
        return Some((nulls(DATE.len() + CLOCK.len()), special(moment)));
    };
    let mut parts = date_parts(micros.div_euclid(MICROS_PER_DAY))?;
    parts.extend(clock_parts(micros.rem_euclid(MICROS_PER_DAY))?);
    Some((parts, Value::Null))
}

fn date_parts(days: i64) -> Option<Vec<Value<'static>>> {
    let (year, month, day) = civil_date(days);
    Some(vec![Value::Int32(i32::try_from(year).ok()?), small(month)?, small(day)?])
}

fn clock_parts(micros: i64) -> Option<Vec<Value<'static>>> {
    Some(vec![
        small(micros / MICROS_PER_HOUR)?,
        small(micros / MICROS_PER_MINUTE % 60)?,
        small(micros / MICROS_PER_SECOND % 60)?,
        Value::Int32(i32::try_from(micros % MICROS_PER_SECOND * NANOS_PER_MICRO).ok()?),
    ])
}

fn small(number: i64) -> Option<Value<'static>> {
    i8::try_from(number).ok().map(Value::Int8)
}

fn precision_part(digits: u8) -> Value<'static> {
    Value::Int32(digits.into())
}

const fn special(moment: Moment) -> Value<'static> {
    match moment {
        Moment::Infinity => Value::str("POSITIVE_INFINITY"),
        Moment::NegativeInfinity => Value::str("NEGATIVE_INFINITY"),
        Moment::At(_) => Value::Null,
    }
}

fn nulls(count: usize) -> Vec<Value<'static>> {
    vec![Value::Null; count]
}

fn structure<const N: usize>(groups: [Vec<Value<'static>>; N]) -> Value<'static> {
    Value::Struct(groups.into_iter().flatten().collect())
}
