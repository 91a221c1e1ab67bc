use crate::connect::OptionError;
use crate::connect::option::{Lookup, boolean, one_of};

/// The options of this module, by their names in the connector's configuration.
pub const OPTION_NAMES: &[&str] = &[
    "binary.handling.mode",
    "decimal.handling.mode",
    "event.converting.failure.handling.mode",
    "hstore.handling.mode",
    "include.unknown.datatypes",
    "interval.handling.mode",
    "money.fraction.digits",
    "time.precision.mode",
];

/// How columns are shown. The defaults are Debezium's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnOptions {
    /// `decimal.handling.mode` (precise): what `numeric` and `money` become.
    pub decimal: DecimalHandling,
    /// `time.precision.mode` (adaptive): what `date`, `time` and `timestamp` become.
    pub time: TimePrecision,
    /// `binary.handling.mode` (bytes): what `bytea` becomes.
    pub binary: BinaryHandling,
    /// `interval.handling.mode` (numeric): what `interval` becomes.
    pub interval: IntervalHandling,
    /// `hstore.handling.mode` (json): what `hstore` becomes.
    pub hstore: HstoreHandling,
    /// `money.fraction.digits` (2): digits behind the point of `money`.
    pub money_fraction_digits: u8,
    /// `include.unknown.datatypes` (false): whether types that Debezium does not know are shown, as the bytes of their
    /// text.
    pub include_unknown: bool,
    /// `event.converting.failure.handling.mode` (warn): what a value becomes that has no form.
    pub failure: FailureHandling,
}

/// `event.converting.failure.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureHandling {
    /// The row is refused.
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
        }
    }
}

impl ColumnOptions {
    /// Reads the options; `lookup` gives the text for a key of [`OPTION_NAMES`].
    ///
    /// # Errors
    /// When a mode is not one of Debezium's.
    pub fn parse(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Self, OptionError> {
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
        Ok(Self {
            decimal: one_of(lookup, "decimal.handling.mode", &decimals, Precise)?,
            time: time_precision(lookup)?,
            binary: one_of(lookup, "binary.handling.mode", &binaries, BinaryHandling::Bytes)?,
            interval: one_of(lookup, "interval.handling.mode", &intervals, IntervalHandling::Numeric)?,
            hstore: one_of(lookup, "hstore.handling.mode", &hstores, HstoreHandling::Json)?,
            money_fraction_digits: money_fraction_digits(lookup)?,
            include_unknown: boolean(lookup, "include.unknown.datatypes", false)?,
            failure: one_of(
                lookup,
                "event.converting.failure.handling.mode",
                &failures,
                FailureHandling::Warn,
            )?,
        })
    }
}

fn time_precision(lookup: Lookup<'_>) -> Result<TimePrecision, OptionError> {
    let names = [
        ("adaptive", TimePrecision::Adaptive),
        ("adaptive_time_microseconds", TimePrecision::AdaptiveTimeMicroseconds),
        ("connect", TimePrecision::Connect),
        ("isostring", TimePrecision::IsoString),
        ("microseconds", TimePrecision::Microseconds),
        ("nanoseconds", TimePrecision::Nanoseconds),
    ];
    one_of(lookup, "time.precision.mode", &names, TimePrecision::Adaptive)
}

fn money_fraction_digits(lookup: Lookup<'_>) -> Result<u8, OptionError> {
    const KEY: &str = "money.fraction.digits";
    let Some(text) = lookup(KEY) else { return Ok(ColumnOptions::default().money_fraction_digits) };
    match text.trim().parse() {
        Ok(digits @ 0..=18) => Ok(digits),
        _ => Err(OptionError::new(KEY, text, "it must be a number from 0 to 18")),
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
