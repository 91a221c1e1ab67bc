//! Floating point numbers as `Double.toString` and `Float.toString` print them (JDK 19 and later: the shortest digits
//! that read back as the same number, at least two; between two that are equally near, those with an even last digit).

use std::fmt::{Arguments, LowerExp};
use std::io::Write as _;

/// Length of a buffer that fits any number in scientific notation, such as `-1.7976931348623157e308`.
const TEXT_MAX: usize = 32;

/// Appends a double.
pub(crate) fn write_f64(out: &mut Vec<u8>, value: f64) {
    if value.is_nan() {
        out.extend(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write_finite(out, value, fraction_bits(value), |text| text.parse() == Ok(value));
    }
}

/// Appends a float.
pub(crate) fn write_f32(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        write_finite(out, value, fraction_bits(value.into()), |text| text.parse() == Ok(value));
    } else {
        write_f64(out, f64::from(value));
    }
}

fn write_finite<T: LowerExp + Copy>(
    out: &mut Vec<u8>,
    value: T,
    fraction_bits: i32,
    reads_back: impl Fn(&str) -> bool,
) {
    let (mut shortest, mut two_digits, mut even) = ([0; TEXT_MAX], [0; TEXT_MAX], [0; TEXT_MAX]);
    let mut text = printed(&mut shortest, format_args!("{value:e}"));
    if !text.contains('.') {
        // Java prints at least two digits, and chooses the second one as near to the number as it can: 4.9E-324.
        let two_digits = printed(&mut two_digits, format_args!("{value:.1e}"));
        text = if reads_back(two_digits) { two_digits } else { text };
    }
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let digits = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len());
    // A number has as many decimal digits behind the point as bits, and the last one is a 5.
    let is_halfway = i32::try_from(digits).is_ok_and(|digits| fraction_bits == digits - exponent + 1);
    let mantissa = if is_halfway && digits > 0 {
        let exact = printed(&mut even, format_args!("{value:.0$e}", digits + 1));
        even_neighbor(mantissa, exact)
    } else {
        mantissa
    };
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    out.extend_from_slice(sign.as_bytes());
    match exponent {
        0..=6 => write_plain(out, first, rest, exponent.unsigned_abs() as usize),
        -3..=-1 => write_small(out, first, rest, exponent.unsigned_abs() as usize),
        _ => {
            let _infallible = write!(out, "{first}.{rest}E{exponent}");
        }
    }
}

/// Returns the mantissa that is as near to the exact number as the shortest one and has an even last digit.
fn even_neighbor<'t>(shortest: &'t str, exact: &'t str) -> &'t str {
    let below = exact.split_once("5e").map_or(shortest, |(below, _)| below);
    // The upper neighbor is even if the lower one is odd. It never needs a carry: a zero at the end would not be the shortest.
    if below.ends_with(['0', '2', '4', '6', '8']) { below } else { shortest }
}

/// Returns the number of bits behind the binary point.
fn fraction_bits(value: f64) -> i32 {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    let bits = value.abs().to_bits();
    let exponent = bits >> MANTISSA_BITS;
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    let mantissa = if exponent == 0 { mantissa } else { mantissa | 1 << MANTISSA_BITS };
    let lowest = exponent.max(1).saturating_add(mantissa.trailing_zeros().into());
    i32::try_from(lowest).map_or(0, |lowest| 1075 - lowest)
}

fn printed<'b>(buffer: &'b mut [u8; TEXT_MAX], number: Arguments<'_>) -> &'b str {
    let mut free = buffer.as_mut_slice();
    let _fits = free.write_fmt(number);
    let length = TEXT_MAX - free.len();
    buffer.get(..length).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
}

/// Writes a number without an exponent: `1.2345` with exponent 2 is `123.45`.
fn write_plain(out: &mut Vec<u8>, first: &str, rest: &str, exponent: usize) {
    let rest = rest.trim_end_matches('0');
    out.extend_from_slice(first.as_bytes());
    out.extend(rest.bytes().chain(std::iter::repeat(b'0')).take(exponent));
    out.push(b'.');
    let behind = rest.get(exponent..).unwrap_or_default();
    out.extend_from_slice(if behind.is_empty() { b"0" } else { behind.as_bytes() });
}

/// Writes a number below 1 without an exponent: `1.2` with exponent -2 is `0.012`.
fn write_small(out: &mut Vec<u8>, first: &str, rest: &str, zeros: usize) {
    out.extend(b"0.");
    out.extend(std::iter::repeat_n(b'0', zeros - 1));
    out.extend_from_slice(first.as_bytes());
    out.extend_from_slice(rest.trim_end_matches('0').as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn f64_text(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_print_as_in_java() {
        let cases: &[(f64, &str)] = &[
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (1.0e7, "1.0E7"),
            (9_999_999.0, "9999999.0"),
            (1.0e-5, "1.0E-5"),
            (0.001, "0.001"),
            (0.0123, "0.0123"),
            (123.456, "123.456"),
            (1.234_567_891_23e8, "1.23456789123E8"),
            (1.0e21, "1.0E21"),
            (f64::MAX, "1.7976931348623157E308"),
            (5e-324, "4.9E-324"),
            (2.0e-3, "0.002"),
            (-2.5, "-2.5"),
            (123_456_789_012_345.67, "1.2345678901234567E14"),
            (100_000_000_000_000.12, "1.0000000000000012E14"),
            (100_000_000_000_000.38, "1.0000000000000038E14"),
            (-70_368_744_177_664.12, "-7.036874417766412E13"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in cases {
            assert_eq!(f64_text(*value), *text);
        }
    }

    #[test]
    fn floats_print_as_in_java() {
        for (value, text) in [
            (0.1f32, "0.1"),
            (1.5, "1.5"),
            (1.0e10, "1.0E10"),
            (16_777_216.0, "1.6777216E7"),
            (f32::MAX, "3.4028235E38"),
            (374_208.12, "374208.12"),
            (374_208.38, "374208.38"),
            (-482_503.12, "-482503.12"),
            (0.5, "0.5"),
            (0.125, "0.125"),
            (8_388_608.5, "8388608.0"),
            (1.0e-5, "1.0E-5"),
            (f32::NAN, "NaN"),
        ] {
            let mut out = Vec::new();
            write_f32(&mut out, value);
            assert_eq!(out, text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_reads_back(bits: u64) {
            let value = f64::from_bits(bits);
            let read: f64 = f64_text(value).parse().unwrap();
            prop_assert!(read == value || (read.is_nan() && value.is_nan()));
        }
    }
}
