use std::borrow::Cow;

use super::format::{Format, required};
use super::options::{ColumnOptions, DecimalHandling};
use crate::connect::{Decimal, Kind, Schema, Value};

/// Added to a numeric modifier by the server (`VARHDRSZ`).
const MODIFIER_OFFSET: i32 = 4;
const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// What a `numeric` becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumericFormat {
    /// `Decimal` of this scale.
    Fixed(i32),
    /// `VariableScaleDecimal`: each value with its own scale.
    Variable,
    Double,
    Text,
}

/// `numeric`, with or without precision and scale.
pub(super) fn numeric(modifier: i32, options: &ColumnOptions) -> (Format, Schema) {
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

/// `money`
pub(super) fn money(options: &ColumnOptions) -> (Format, Schema) {
    let scale = i32::from(options.money_fraction_digits);
    let (format, schema) = match options.decimal {
        DecimalHandling::Precise => (NumericFormat::Fixed(scale), decimal(scale)),
        DecimalHandling::Double => (NumericFormat::Double, Schema::new(Kind::Float64)),
        DecimalHandling::String => (NumericFormat::Text, Schema::new(Kind::String)),
    };
    (Format::Money(format), schema)
}

/// `numeric(p, s)` from its modifier: the precision in the upper half, the scale in eleven bits with a sign.
pub(crate) fn precision_and_scale(modifier: i32) -> Option<(i32, i32)> {
    let bits = modifier.checked_sub(MODIFIER_OFFSET).filter(|bits| *bits >= 0)?;
    Some((bits >> 16 & 0xFFFF, (bits & 0x7FF ^ 1024) - 1024))
}

/// The same, with the scale's bits taken for a number without a sign, as pgjdbc tells it to Debezium: -2 is 2046.
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
    pub(super) fn decode<'a>(self, text: &'a str) -> Option<Value<'a>> {
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

    /// Reads a `money`: a currency sign, grouped digits, and a sign or parentheses as the server's locale has them.
    pub(super) fn decode_money(self, text: &str) -> Option<Value<'static>> {
        let plain = plain_money(text);
        match self {
            Self::Fixed(scale) => Some(Value::Decimal(Decimal::parse(&plain)?.rounded(scale)?)),
            _ => self.decode(&plain).map(Value::into_owned),
        }
    }
}

/// The last point or comma with one or two digits after it is the decimal point; all others group digits.
fn plain_money(text: &str) -> String {
    let point = text.rfind(['.', ',']).filter(|at| {
        let behind = text.get(at + 1..).unwrap_or_default().bytes().filter(u8::is_ascii_digit).count();
        (1..=2).contains(&behind)
    });
    let mut plain = String::with_capacity(text.len());
    if text.contains(['-', '(']) {
        plain.push('-');
    }
    for (at, character) in text.char_indices() {
        if character.is_ascii_digit() {
            plain.push(character);
        } else if Some(at) == point {
            plain.push('.');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_in_several_locales() {
        let cases = [
            ("$1,234.56", "1234.56"),
            ("-$1,234.56", "-1234.56"),
            ("($0.05)", "-0.05"),
            ("1.234,56 €", "1234.56"),
            ("¥1,234", "1234"),
        ];
        for (text, plain) in cases {
            assert_eq!(plain_money(text), plain);
        }
    }
}
