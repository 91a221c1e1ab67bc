//! `interval`.

use std::borrow::Cow;

use super::calendar::{micros_of_clock, write_micros};
use super::structured;
use crate::column::options::{ColumnOptions, IntervalHandling, TimePrecision};
use crate::{Kind, Schema, Value};

const DAYS_PER_MONTH: f64 = 365.25 / 12.0;

/// Connect form of an `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum IntervalFormat {
    /// Microseconds.
    Micros,
    /// ISO 8601.
    Iso,
    /// A field for each part, with this precision of the seconds.
    Structured(i32),
}

/// An interval in the parts that PostgreSQL stores and Debezium prints.
#[derive(Debug, Default, PartialEq)]
struct Interval {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i64,
    /// Seconds with their fraction, in microseconds.
    micros: i64,
}

/// Returns the format and schema of an `interval`. `time.precision.mode=structured` overrides `interval.handling.mode`.
pub(in crate::column) fn format(modifier: i32, options: &ColumnOptions) -> (IntervalFormat, Schema) {
    if options.time == TimePrecision::Structured {
        let digits = structured::interval_precision(modifier);
        return (IntervalFormat::Structured(digits), structured::interval_schema());
    }
    match options.interval {
        IntervalHandling::Numeric => {
            (IntervalFormat::Micros, Schema::named(Kind::Int64, "io.debezium.time.MicroDuration"))
        }
        IntervalHandling::String => {
            (IntervalFormat::Iso, Schema::named(Kind::String, "io.debezium.time.Interval"))
        }
    }
}

impl IntervalFormat {
    /// Reads an `interval` in the style `postgres`.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        let interval = Interval::parse(text)?;
        match self {
            Self::Micros => Some(Value::Int64(interval.micros())),
            Self::Iso => Some(Value::Str(Cow::Owned(interval.iso()))),
            Self::Structured(digits) => interval.structured(digits),
        }
    }
}

impl Interval {
    /// Reads `1 year 2 mons -3 days 04:05:06.789`.
    fn parse(text: &str) -> Option<Self> {
        let mut interval = Self::default();
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            if word.contains(':') {
                interval.set_clock(word)?;
                continue;
            }
            let number = word.parse().ok()?;
            match words.next()?.trim_end_matches('s') {
                "year" => interval.years = number,
                "mon" => interval.months = number,
                "day" => interval.days = number,
                _ => return None,
            }
        }
        Some(interval)
    }

    fn set_clock(&mut self, clock: &str) -> Option<()> {
        let (sign, clock) = match clock.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, clock.strip_prefix('+').unwrap_or(clock)),
        };
        let total = micros_of_clock(clock)?;
        self.hours = sign * (total / 3_600_000_000);
        self.minutes = sign * (total / 60_000_000 % 60);
        self.micros = sign * (total % 60_000_000);
        Some(())
    }

    /// Returns Debezium's `MicroDuration`, calculated in the same floating point steps.
    #[expect(clippy::cast_possible_truncation, reason = "saturates, as the cast in Java does")]
    #[expect(clippy::cast_precision_loss, reason = "Debezium calculates in double")]
    fn micros(&self) -> i64 {
        let months = f64::from(self.years) * 12.0 + f64::from(self.months);
        let days = months * DAYS_PER_MONTH + f64::from(self.days);
        let minutes = (days * 24.0 + self.hours as f64) * 60.0 + self.minutes as f64;
        ((minutes * 60.0 + self.micros as f64 / 1e6) * 1e6) as i64
    }

    fn structured(&self, digits: i32) -> Option<Value<'static>> {
        let [years, months, days] = [self.years, self.months, self.days].map(i64::from);
        structured::interval([years, months, days, self.hours, self.minutes], self.micros, digits)
    }

    fn iso(&self) -> String {
        let Self { years, months, days, hours, minutes, micros } = self;
        let mut text = format!("P{years}Y{months}M{days}DT{hours}H{minutes}M");
        if *micros < 0 {
            text.push('-');
        }
        let micros = micros.unsigned_abs();
        text.push_str(&(micros / 1_000_000).to_string());
        write_micros(&mut text, micros % 1_000_000);
        text.push('S');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_become_what_debezium_makes_of_them() {
        let cases = [
            ("1 year 2 mons 3 days 04:05:06.789", 37_091_106_789_000, "P1Y2M3DT4H5M6.789S"),
            ("00:00:00", 0, "P0Y0M0DT0H0M0S"),
            ("1 day", 86_400_000_000, "P0Y0M1DT0H0M0S"),
            ("-1 days -00:00:01.5", -86_401_500_000, "P0Y0M-1DT0H0M-1.5S"),
            ("1 mon", 2_629_800_000_000, "P0Y1M0DT0H0M0S"),
            ("123:00:00", 442_800_000_000, "P0Y0M0DT123H0M0S"),
        ];
        for (text, micros, iso) in cases {
            assert_eq!(IntervalFormat::Micros.decode(text), Some(Value::Int64(micros)), "{text}");
            assert_eq!(IntervalFormat::Iso.decode(text), Some(Value::str(iso)), "{text}");
        }
        for wrong in ["1", "x days", "1 fortnight", "1:2:x"] {
            assert_eq!(IntervalFormat::Micros.decode(wrong), None, "{wrong}");
        }
    }
}
