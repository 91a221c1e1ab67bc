//! Java's conversions between numbers, and of text to numbers.

use crate::Decimal;

/// Returns the low 64 bits of a decimal's whole part (`BigDecimal.longValue`).
pub(crate) fn whole(decimal: &Decimal) -> i64 {
    let plain = decimal.to_plain_string();
    let (sign, digits) = plain.strip_prefix('-').map_or((1, plain.as_str()), |digits| (-1, digits));
    let digits = digits.split('.').next().unwrap_or_default().bytes().map(|byte| byte.wrapping_sub(b'0'));
    let magnitude = digits.fold(0i64, |sum, digit| sum.wrapping_mul(10).wrapping_add(i64::from(digit)));
    magnitude.wrapping_mul(sign)
}

/// Truncates a number; beyond the range the result is the nearest limit, and for NaN 0.
pub(crate) fn whole_of_float(number: f64) -> i64 {
    if number.is_nan() {
        return 0;
    }
    let limit = if number < 0.0 { i64::MIN } else { i64::MAX };
    format!("{:.0}", number.trunc()).parse().unwrap_or(limit)
}

/// Returns the low 8 bits, as Java narrows whole numbers.
pub(crate) const fn low_i8(number: i64) -> i8 {
    let [a, ..] = number.to_le_bytes();
    i8::from_le_bytes([a])
}

/// Returns the low 16 bits.
pub(crate) const fn low_i16(number: i64) -> i16 {
    let [a, b, ..] = number.to_le_bytes();
    i16::from_le_bytes([a, b])
}

/// Returns the low 32 bits.
pub(crate) const fn low_i32(number: i64) -> i32 {
    let [a, b, c, d, ..] = number.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Parses a number like `Float.parseFloat`.
pub(crate) fn parse_f32(text: &str) -> Option<f32> {
    java_float(text)?.parse().ok()
}

/// Parses a number like `Double.parseDouble`.
pub(crate) fn parse_f64(text: &str) -> Option<f64> {
    java_float(text)?.parse().ok()
}

/// Returns a number in Java's syntax without its suffix; none when Java does not accept it. `NaN` and `Infinity` have one
/// spelling.
fn java_float(text: &str) -> Option<&str> {
    let text = text.trim();
    let unsigned = text.trim_start_matches(['+', '-']);
    if matches!(unsigned, "NaN" | "Infinity") {
        return Some(text);
    }
    let text = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E');
    text.chars().all(is_plain).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_narrowed_as_in_java() {
        assert_eq!((low_i8(300), low_i16(70_000), low_i32(5_000_000_000)), (44, 4464, 705_032_704));
        assert_eq!((whole_of_float(-1.9), whole_of_float(1e30), whole_of_float(f64::NAN)), (-1, i64::MAX, 0));
        let whole_of = |text| whole(&Decimal::parse(text).unwrap());
        assert_eq!((whole_of("-1.9"), whole_of("18446744073709551621")), (-1, 5));
        assert_eq!(parse_f64(" 1.5d "), Some(1.5));
        assert_eq!((parse_f64("inf"), parse_f64("-Infinity")), (None, Some(f64::NEG_INFINITY)));
    }

    proptest! {
        #[test]
        fn whole_numbers_stay(number: i64) {
            prop_assert_eq!(whole(&Decimal::parse(&number.to_string()).unwrap()), number);
        }
    }
}
