//! Numbers of a literal.

use std::sync::Arc;

use super::typed;
use crate::source_record::Datum;
use crate::{Decimal, Kind, Schema, Value};

const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// Digits of the longest INT64.
const INT64_DIGITS: i64 = 19;

/// Digits before or behind the point of a decimal.
const SCALE_MAX: u32 = 10_000;

/// Reads a number. A whole one is of the smallest type that fits INT64. Otherwise one with a point or an exponent is a FLOAT32, or
/// beyond its range a FLOAT64; the rest are decimals.
pub(super) fn number(text: &str) -> Result<Option<Datum<'static>>, &'static str> {
    let Some(decimal) = Decimal::parse_scientific(text) else { return Ok(None) };
    if let Some(whole) = whole(&decimal) {
        let (kind, value) = narrowest(whole);
        return Ok(Some(typed(kind, value)));
    }
    if decimal.scale() != 0 {
        if let Some(single) = text.parse().ok().filter(|number: &f32| number.is_finite()) {
            return Ok(Some(typed(Kind::Float32, Value::Float32(single))));
        }
        if let Some(double) = text.parse().ok().filter(|number: &f64| number.is_finite()) {
            return Ok(Some(typed(Kind::Float64, Value::Float64(double))));
        }
    }
    if decimal.scale().unsigned_abs() > SCALE_MAX {
        return Err("the number has too many digits: its exponent must be at most 10000");
    }
    let schema = Schema::named(Kind::Bytes, DECIMAL).with_parameter("scale", decimal.scale());
    Ok(Some(Datum::new(Arc::new(schema), Value::Decimal(decimal))))
}

/// Returns the number, if it is a whole one that fits.
fn whole(decimal: &Decimal) -> Option<i64> {
    let digits = i64::try_from(decimal.precision()).ok()?.saturating_sub(decimal.scale().into());
    let is_zero = decimal.unscaled_bytes().iter().all(|byte| *byte == 0);
    if digits > INT64_DIGITS && !is_zero {
        return None;
    }
    decimal.clone().with_scale(0)?.to_plain_string().parse().ok()
}

fn narrowest(number: i64) -> (Kind, Value<'static>) {
    if let Ok(number) = i8::try_from(number) {
        return (Kind::Int8, Value::Int8(number));
    }
    if let Ok(number) = i16::try_from(number) {
        return (Kind::Int16, Value::Int16(number));
    }
    match i32::try_from(number) {
        Ok(number) => (Kind::Int32, Value::Int32(number)),
        Err(_) => (Kind::Int64, Value::Int64(number)),
    }
}
