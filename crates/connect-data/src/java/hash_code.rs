//! `Object.hashCode()` of the Java objects that Debezium uses for values.

use crate::Value;

/// Returns the hash; none for a struct, whose hash depends on its schema, and for JSON text.
pub(crate) fn of(value: &Value<'_>) -> Option<i32> {
    Some(match value {
        Value::Null => 0,
        Value::Bool(value) => {
            if *value {
                1231
            } else {
                1237
            }
        }
        Value::Int8(number) => (*number).into(),
        Value::Int16(number) => (*number).into(),
        Value::Int32(number) => *number,
        Value::Int64(number) | Value::Date(number) => folded(*number),
        Value::Float32(number) => float_bits(*number),
        Value::Float64(number) => double_bits(*number),
        Value::Str(text) => sequence(0, text.encode_utf16().map(i32::from)),
        Value::Bytes(bytes) => {
            sequence(1, bytes.iter().rev().map(|byte| i32::from(i8::from_le_bytes([*byte]))))
        }
        Value::Array(items) => sequence(1, items.iter().map(of).collect::<Option<Vec<_>>>()?),
        Value::Map(entries) => {
            let entry = |(key, value): &(Value<'_>, Value<'_>)| Some(of(key)? ^ of(value)?);
            let hashes = entries.iter().map(entry).collect::<Option<Vec<_>>>()?;
            hashes.into_iter().fold(0, i32::wrapping_add)
        }
        Value::Decimal(decimal) => {
            let unscaled = decimal.unscaled_bytes();
            let negative = unscaled.first().is_some_and(|first| first & 0x80 != 0);
            let magnitude = if negative { negated(&unscaled) } else { unscaled.into_vec() };
            let words = magnitude.rchunks(4).rev().map(word);
            let hash = sequence(0, words);
            let hash = if negative { hash.wrapping_neg() } else { hash };
            hash.wrapping_mul(31).wrapping_add(decimal.scale())
        }
        Value::Json(_) | Value::Struct(_) => return None,
    })
}

fn sequence(start: i32, items: impl IntoIterator<Item = i32>) -> i32 {
    items.into_iter().fold(start, |hash, item| hash.wrapping_mul(31).wrapping_add(item))
}

/// Returns the upper half XOR the lower one.
const fn folded(number: i64) -> i32 {
    let [a, b, c, d, e, f, g, h] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d]) ^ i32::from_le_bytes([e, f, g, h])
}

fn float_bits(number: f32) -> i32 {
    let bits = if number.is_nan() { 0x7FC0_0000 } else { number.to_bits() };
    i32::from_le_bytes(bits.to_le_bytes())
}

fn double_bits(number: f64) -> i32 {
    let bits = if number.is_nan() { 0x7FF8_0000_0000_0000 } else { number.to_bits() };
    folded(i64::from_le_bytes(bits.to_le_bytes()))
}

/// Returns up to four big-endian bytes as Java's `int`.
fn word(bytes: &[u8]) -> i32 {
    let word = bytes.iter().fold(0u32, |word, byte| (word << 8) | u32::from(*byte));
    i32::from_le_bytes(word.to_le_bytes())
}

/// Returns the magnitude of a negative number in two's complement.
fn negated(bytes: &[u8]) -> Vec<u8> {
    let mut carry = true;
    let mut magnitude: Vec<u8> = bytes
        .iter()
        .rev()
        .map(|byte| {
            let (sum, overflow) = (!byte).overflowing_add(u8::from(carry));
            carry = overflow;
            sum
        })
        .collect();
    magnitude.reverse();
    magnitude
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decimal;

    #[test]
    fn hashes_are_javas() {
        let decimal = |text| Value::Decimal(Decimal::parse(text).unwrap());
        let cases = [
            (Value::str("hello"), 99_162_322),
            (Value::str("é"), 233),
            (Value::Int64(-1), 0),
            (Value::Int64(1 << 32), 1),
            (Value::Int32(-5), -5),
            (Value::Bool(true), 1231),
            (Value::Float64(1.0), 1_072_693_248),
            (Value::Float32(1.0), 1_065_353_216),
            (Value::Array(vec![Value::Int32(1), Value::Int32(2)]), 994),
            (decimal("1.25"), 3877),
            (decimal("-1.25"), -3873),
        ];
        for (value, hash) in cases {
            assert_eq!(of(&value), Some(hash), "{value:?}");
        }
        assert_eq!(of(&Value::Struct(Vec::new())), None);
    }
}
