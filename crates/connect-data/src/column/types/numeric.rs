//! `numeric` and `money`.

use std::borrow::Cow;

use crate::column::format::{Format, required};
use crate::column::options::{ColumnOptions, DecimalHandling};
use crate::{Decimal, Kind, Schema, Value};

/// Added to a numeric modifier by the server (`VARHDRSZ`).
const MODIFIER_OFFSET: i32 = 4;
const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// Connect form of a `numeric`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum NumericFormat {
    /// `Decimal` of this scale.
    Fixed(i32),
    /// `VariableScaleDecimal`: each value with its own scale.
    Variable,
    Double,
    Text,
}

/// Returns the format and schema of a `numeric`, with or without precision and scale.
pub(in crate::column) fn numeric(modifier: i32, options: &ColumnOptions) -> (Format, Schema) {
    let dimensions = if options.keeps_accidents {
        precision_and_bare_scale(modifier)
    } else {
        precision_and_scale(modifier)
    };
    let (format, schema) = match (options.decimal, dimensions) {
        (DecimalHandling::Double, _) => (NumericFormat::Double, Schema::new(Kind::Float64)),
        (DecimalHandling::String, _) => (NumericFormat::Text, Schema::new(Kind::String)),
        (DecimalHandling::Precise, None) => (NumericFormat::Variable, variable_scale()),
        (DecimalHandling::Precise, Some((precision, scale))) => {
            let schema = decimal(scale).with_parameter("connect.decimal.precision", precision);
            (NumericFormat::Fixed(scale), schema)
        }
    };
    (Format::Numeric(format), schema)
}

/// Connect form of a `money`, and the format of its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) struct MoneyFormat {
    number: NumericFormat,
    /// Digits behind the decimal point in the session's `lc_monetary`, if known.
    fraction_digits: Option<usize>,
}

/// Returns the format and schema of a `money`.
pub(in crate::column) fn money(fraction_digits: Option<usize>, options: &ColumnOptions) -> (Format, Schema) {
    let scale = i32::from(options.money_fraction_digits);
    let (number, schema) = match options.decimal {
        DecimalHandling::Precise => (NumericFormat::Fixed(scale), decimal(scale)),
        DecimalHandling::Double => (NumericFormat::Double, Schema::new(Kind::Float64)),
        DecimalHandling::String => (NumericFormat::Text, Schema::new(Kind::String)),
    };
    (Format::Money(MoneyFormat { number, fraction_digits }), schema)
}

/// Returns precision and scale of a `numeric(p, s)` from its modifier: the precision is in the upper half, the scale in
/// eleven bits with a sign.
pub fn precision_and_scale(modifier: i32) -> Option<(i32, i32)> {
    let bits = modifier.checked_sub(MODIFIER_OFFSET).filter(|bits| *bits >= 0)?;
    Some((bits >> 16 & 0xFFFF, (bits & 0x7FF ^ 1024) - 1024))
}

/// Returns precision and scale, with the scale's bits read as a number without a sign, as pgjdbc reports it to
/// Debezium: -2 becomes 2046.
pub(super) fn precision_and_bare_scale(modifier: i32) -> Option<(i32, i32)> {
    let (precision, scale) = precision_and_scale(modifier)?;
    Some((precision, scale & 0x7FF))
}

fn decimal(scale: i32) -> Schema {
    Schema::named(Kind::Bytes, DECIMAL).with_parameter("scale", scale)
}

fn variable_scale() -> Schema {
    let fields = vec![required("scale", Kind::Int32), required("value", Kind::Bytes)];
    let mut schema = Schema::named(Kind::Struct(fields), "io.debezium.data.VariableScaleDecimal");
    schema.doc = Some("Variable scaled decimal");
    schema
}

impl NumericFormat {
    /// Reads a `numeric`. `NaN` and the infinities have no exact form.
    pub(in crate::column) fn decode<'a>(self, text: &'a str) -> Option<Value<'a>> {
        Some(match self {
            Self::Text => Value::str(match text {
                // The names of Debezium's constants.
                "NaN" => "NAN",
                "Infinity" => "POSITIVE_INFINITY",
                "-Infinity" => "NEGATIVE_INFINITY",
                number => number,
            }),
            Self::Double => Value::Float64(text.parse().ok()?),
            Self::Fixed(scale) => Value::Decimal(Decimal::parse(text)?.with_scale(scale)?),
            Self::Variable => {
                let decimal = Decimal::parse(text)?.without_trailing_zeros();
                let unscaled = Value::Bytes(Cow::Owned(decimal.unscaled_bytes().into_vec()));
                Value::Struct(vec![Value::Int32(decimal.scale()), unscaled])
            }
        })
    }
}

impl MoneyFormat {
    /// Reads a `money`: a currency sign, grouped digits, and a sign or parentheses in the format of the server's
    /// locale.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        let plain = plain_money(text, self.fraction_digits);
        match self.number {
            NumericFormat::Fixed(scale) => Some(Value::Decimal(Decimal::parse(&plain)?.rounded(scale)?)),
            number => number.decode(&plain).map(Value::into_owned),
        }
    }
}

/// Returns the plain number of a `money`. Points and commas are ambiguous: one locale groups digits with the character
/// that another puts before the cents, some locales have three fraction digits or none, and a currency sign may contain
/// points.
fn plain_money(text: &str, fraction_digits: Option<usize>) -> String {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let fraction_digits = fraction_digits.unwrap_or_else(|| guessed_fraction_digits(text));
    let (whole, fraction) = digits.split_at(digits.len().saturating_sub(fraction_digits));
    let sign = if text.contains(['-', '(']) { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{sign}{whole}{point}{fraction}")
}

/// Guesses the number of fraction digits: one or two digits behind the last point or comma are cents.
fn guessed_fraction_digits(text: &str) -> usize {
    let last = text.rsplit(['.', ',']).next().filter(|last| last.len() < text.len()).unwrap_or_default();
    Some(last.bytes().filter(u8::is_ascii_digit).count()).filter(|digits| *digits <= 2).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_in_every_locale() {
        let cases = [
            ("$1,234.56", 2, "1234.56"),
            ("-$1,234.56", 2, "-1234.56"),
            ("($0.05)", 2, "-0.05"),
            ("1.234,56 €", 2, "1234.56"),
            ("1\u{202f}234,56 лв.", 2, "1234.56"),
            ("kr. 5,00", 2, "5.00"),
            ("CHF- 1’234.56", 2, "-1234.56"),
            ("¥1,234", 0, "1234"),
            ("1.234 kr", 0, "1234"),
            ("د.ك. 1,234.567-", 3, "-1234.567"),
            ("د.ك. 0.005", 3, "0.005"),
            ("1.234,567 L", 3, "1234.567"),
        ];
        for (text, fraction_digits, plain) in cases {
            assert_eq!(plain_money(text, Some(fraction_digits)), plain);
        }
    }

    #[test]
    fn without_the_locale_cents_are_guessed() {
        for (text, plain) in
            [("$1,234.56", "1234.56"), ("1.234,5 €", "1234.5"), ("¥1,234", "1234"), ("5", "5")]
        {
            assert_eq!(plain_money(text, None), plain);
        }
    }
}
