//! Options for the conversion of columns.

use crate::{OptionError, OptionReader, debezium_version};

/// Options for the conversion of columns. The defaults are Debezium's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnOptions {
    /// `decimal.handling.mode` (precise): form of `numeric` and `money`.
    pub decimal: DecimalHandling,
    /// `time.precision.mode` (adaptive): form of dates and times.
    pub time: TimePrecision,
    /// `binary.handling.mode` (bytes): form of `bytea`.
    pub binary: BinaryHandling,
    /// `interval.handling.mode` (numeric): form of `interval`.
    pub interval: IntervalHandling,
    /// `hstore.handling.mode` (json): form of `hstore`.
    pub hstore: HstoreHandling,
    /// `money.fraction.digits` (2): digits behind the decimal point of `money`, 0 to 18.
    pub money_fraction_digits: u8,
    /// `include.unknown.datatypes` (false): true to show types that Debezium does not know, as the bytes of their text.
    pub include_unknown: bool,
    /// `event.converting.failure.handling.mode` (warn): handling of a value that has no Connect form.
    pub failure: FailureHandling,
    /// True to reproduce Debezium's accidental behavior, which consumers of change events see. False for an outbox,
    /// which has the actual value.
    pub keeps_accidents: bool,
    /// `outboxd.debezium.version`: true if times in arrays lose their microseconds, as in Debezium before 3.7.1.
    pub rounds_times_in_arrays: bool,
}

/// `event.converting.failure.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureHandling {
    /// The row is rejected.
    Fail,
    /// The column's default or null, and a warning.
    Warn,
    /// The column's default or null, silently.
    Skip,
}

/// `decimal.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalHandling {
    /// Exact: `Decimal`, or `VariableScaleDecimal` for a `numeric` without scale.
    Precise,
    /// `FLOAT64`
    Double,
    /// `STRING`
    String,
}

/// `time.precision.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePrecision {
    /// As precise as the column: milliseconds up to three digits, else microseconds.
    Adaptive,
    /// Like adaptive, with times of day always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Always microseconds.
    Microseconds,
    /// Always nanoseconds.
    Nanoseconds,
    /// ISO 8601 text in UTC.
    IsoString,
    /// Connect's own logical types: days and milliseconds.
    Connect,
    /// Structs with a field for each part.
    Structured,
}

/// `binary.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryHandling {
    /// `BYTES`
    Bytes,
    /// Base64 text.
    Base64,
    /// Base64 text of the URL-safe alphabet.
    Base64UrlSafe,
    /// Lower-case hexadecimal text.
    Hex,
}

/// `interval.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalHandling {
    /// Microseconds, a month counting 30.4375 days.
    Numeric,
    /// ISO 8601: `P1Y2M3DT4H5M6.789S`.
    String,
}

/// `hstore.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HstoreHandling {
    /// JSON text.
    Json,
    /// `MAP` of strings to optional strings.
    Map,
}

impl Default for ColumnOptions {
    fn default() -> Self {
        Self {
            decimal: DecimalHandling::Precise,
            time: TimePrecision::Adaptive,
            binary: BinaryHandling::Bytes,
            interval: IntervalHandling::Numeric,
            hstore: HstoreHandling::Json,
            money_fraction_digits: 2,
            include_unknown: false,
            failure: FailureHandling::Warn,
            keeps_accidents: false,
            rounds_times_in_arrays: true,
        }
    }
}

impl ColumnOptions {
    /// Reads the options; `lookup` returns the text of a key.
    ///
    /// # Errors
    /// When a mode is not one of Debezium's; the first one.
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionError> {
        OptionReader::alone(lookup, |options| Ok(Self::read(options)))
    }

    /// Reads the options.
    pub fn read(options: &mut OptionReader<'_>) -> Self {
        use DecimalHandling::{Double, Precise};
        let decimals = [("precise", Precise), ("double", Double), ("string", DecimalHandling::String)];
        let binaries = [
            ("bytes", BinaryHandling::Bytes),
            ("base64", BinaryHandling::Base64),
            ("base64-url-safe", BinaryHandling::Base64UrlSafe),
            ("hex", BinaryHandling::Hex),
        ];
        let intervals = [("numeric", IntervalHandling::Numeric), ("string", IntervalHandling::String)];
        let hstores = [("json", HstoreHandling::Json), ("map", HstoreHandling::Map)];
        let failures = [
            ("fail", FailureHandling::Fail),
            ("warn", FailureHandling::Warn),
            ("skip", FailureHandling::Skip),
        ];
        Self {
            decimal: options.one_of("decimal.handling.mode", &decimals, Precise),
            time: time_precision(options),
            binary: options.one_of("binary.handling.mode", &binaries, BinaryHandling::Bytes),
            interval: options.one_of("interval.handling.mode", &intervals, IntervalHandling::Numeric),
            hstore: options.one_of("hstore.handling.mode", &hstores, HstoreHandling::Json),
            money_fraction_digits: money_fraction_digits(options),
            include_unknown: options.boolean("include.unknown.datatypes", false),
            keeps_accidents: false,
            rounds_times_in_arrays: debezium_version::is_asked_before(
                options,
                debezium_version::TIMES_IN_ARRAYS,
            ),
            failure: options.one_of(FAILURE_MODE, &failures, FailureHandling::Warn),
        }
    }
}

const FAILURE_MODE: &str = "event.converting.failure.handling.mode";

fn time_precision(options: &mut OptionReader<'_>) -> TimePrecision {
    let names = [
        ("adaptive", TimePrecision::Adaptive),
        ("adaptive_time_microseconds", TimePrecision::AdaptiveTimeMicroseconds),
        ("connect", TimePrecision::Connect),
        ("isostring", TimePrecision::IsoString),
        ("microseconds", TimePrecision::Microseconds),
        ("nanoseconds", TimePrecision::Nanoseconds),
        ("structured", TimePrecision::Structured),
    ];
    options.one_of("time.precision.mode", &names, TimePrecision::Adaptive)
}

fn money_fraction_digits(options: &mut OptionReader<'_>) -> u8 {
    const KEY: &str = "money.fraction.digits";
    let default = ColumnOptions::default().money_fraction_digits;
    let Some(text) = options.text(KEY) else { return default };
    match text.trim().parse() {
        Ok(digits @ 0..=18) => digits,
        _ => {
            options.refuse(KEY, text, "it must be a number from 0 to 18");
            default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_given_means_the_defaults() {
        assert_eq!(ColumnOptions::parse(&|_| None), Ok(ColumnOptions::default()));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let cases = [
            ("time.precision.mode", "hourly", "must be one of adaptive, "),
            ("decimal.handling.mode", "exact", "must be one of precise, double, string"),
            ("money.fraction.digits", "-1", "0 to 18"),
        ];
        for (key, value, reason) in cases {
            let error = ColumnOptions::parse(&|asked| (asked == key).then(|| value.to_owned())).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
            assert_eq!(error.key, key);
        }
    }
}
