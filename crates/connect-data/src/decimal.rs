//! Decimal numbers of any length.

use std::fmt;

use smallvec::SmallVec;

/// Decimal digits that fit one step of a conversion: 10^9 < 2^32.
const DIGITS_PER_STEP: usize = 9;

/// Number of digits up to which every number fits 64 bits.
const DIGITS_OF_I64: usize = 18;

/// Divisor that splits the digits of one step off a large number: 10^9.
const STEP: u64 = 1_000_000_000;

/// Longest unscaled value that is read, in bytes: PostgreSQL's longest number needs slightly more than 61,000.
const UNSCALED_BYTES_MAX: usize = 1 << 16;

/// Bytes of an unscaled value; those of a usual number need no allocation.
type UnscaledBytes = SmallVec<[u8; 16]>;

/// An exact decimal number: `java.math.BigDecimal` with its unscaled value as decimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// Digits without leading zeros; `"0"` for zero.
    digits: String,
    scale: i32,
}

impl Decimal {
    /// Reads a plain decimal number: a sign, digits, a point, digits. Returns `None` for anything else, including an
    /// exponent.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = magnitude.split_once('.').unwrap_or((magnitude, ""));
        let length = whole.len().saturating_add(fraction.len());
        if length == 0 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let significant = whole.trim_start_matches('0');
        let mut digits = String::with_capacity(length);
        digits.push_str(significant);
        digits.push_str(if significant.is_empty() { fraction.trim_start_matches('0') } else { fraction });
        if digits.is_empty() {
            digits.push('0');
        }
        let scale = i32::try_from(fraction.len()).ok()?;
        Some(Self { negative: negative && digits != "0", digits, scale })
    }

    fn new(negative: bool, digits: &str, scale: i32) -> Self {
        let digits = match digits.trim_start_matches('0') {
            "" => "0",
            significant => significant,
        };
        Self { negative: negative && digits != "0", digits: digits.to_owned(), scale }
    }

    /// Reads a number like [`Self::parse`], with an optional exponent.
    #[must_use]
    pub fn parse_scientific(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let mut number = Self::parse(mantissa)?;
        number.scale = number.scale.checked_sub(exponent)?;
        Some(number)
    }

    /// Returns the number of digits (`BigDecimal.precision`).
    #[must_use]
    pub const fn precision(&self) -> usize {
        self.digits.len()
    }

    /// Returns the number of digits behind the point; negative for zeros before it.
    #[must_use]
    pub const fn scale(&self) -> i32 {
        self.scale
    }

    /// Returns the same number at another scale, or `None` when digits other than zero would be lost.
    #[must_use]
    pub fn with_scale(mut self, scale: i32) -> Option<Self> {
        while self.scale > scale {
            self.digits = self.digits.strip_suffix('0').map(str::to_owned)?;
            self.scale -= 1;
            if self.digits.is_empty() {
                self.digits.push('0');
                self.scale = scale;
            }
        }
        if self.digits != "0" {
            let zeros = usize::try_from(scale.checked_sub(self.scale)?).ok()?;
            self.digits.extend(std::iter::repeat_n('0', zeros));
        }
        self.scale = scale;
        Some(self)
    }

    /// Returns the nearest number at another scale; half is rounded away from zero (Java's `RoundingMode.HALF_UP`).
    /// `None` when the scales are too far apart.
    #[must_use]
    pub fn rounded(self, scale: i32) -> Option<Self> {
        let surplus = usize::try_from(self.scale.saturating_sub(scale)).unwrap_or_default();
        if surplus == 0 {
            return self.with_scale(scale);
        }
        let (kept, dropped) = self.digits.split_at_checked(self.digits.len().saturating_sub(surplus))?;
        let is_up = dropped.len() == surplus && dropped.starts_with(|first| first >= '5');
        let digits = if is_up { incremented(kept) } else { kept.to_owned() };
        Some(Self::new(self.negative, &digits, scale))
    }

    /// Returns the same number without trailing zeros behind the point. A negative scale is not changed, except that of
    /// zero.
    #[must_use]
    pub fn without_trailing_zeros(mut self) -> Self {
        if self.digits == "0" {
            self.scale = 0;
        }
        while self.scale > 0 && self.digits.ends_with('0') {
            self.digits.pop();
            self.scale -= 1;
        }
        self
    }

    /// Returns the unscaled value as `BigInteger.toByteArray` does: two's complement, big-endian, without redundant
    /// bytes.
    #[must_use]
    pub fn unscaled_bytes(&self) -> UnscaledBytes {
        let mut bytes = UnscaledBytes::new();
        match self.digits.parse::<i64>() {
            Ok(number) if self.digits.len() <= DIGITS_OF_I64 => {
                let number = if self.negative { -number } else { number };
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            _ => {
                bytes.push(0);
                bytes.extend(magnitude(&self.digits).iter().rev().flat_map(|limb| limb.to_be_bytes()));
                if self.negative {
                    negate(&mut bytes);
                }
            }
        }
        let sign = if self.negative { 0xFF } else { 0 };
        let kept = bytes
            .iter()
            .zip(bytes.iter().skip(1))
            .take_while(|(first, second)| **first == sign && (**second & 0x80 == sign & 0x80));
        let redundant = kept.count();
        bytes.drain(..redundant);
        bytes
    }

    /// Reads the bytes of [`Self::unscaled_bytes`]. Returns `None` if they are longer than 64 KiB.
    #[must_use]
    pub fn from_unscaled_bytes(bytes: &[u8], scale: i32) -> Option<Self> {
        if bytes.len() > UNSCALED_BYTES_MAX {
            return None;
        }
        let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
        let mut magnitude = bytes.to_vec();
        if negative {
            negate(&mut magnitude);
        }
        Some(Self::new(negative, &digits_of(&magnitude), scale))
    }

    /// Returns the number without an exponent (`BigDecimal.toPlainString`).
    #[must_use]
    pub fn to_plain_string(&self) -> String {
        let sign = if self.negative { "-" } else { "" };
        let Ok(scale) = usize::try_from(self.scale) else {
            let zeros = if self.digits == "0" { 0 } else { self.scale.unsigned_abs() as usize };
            return format!("{sign}{}{}", self.digits, "0".repeat(zeros));
        };
        if scale == 0 {
            return format!("{sign}{}", self.digits);
        }
        let padded = format!("{:0>width$}", self.digits, width = scale + 1);
        let (whole, fraction) = padded.split_at(padded.len() - scale);
        format!("{sign}{whole}.{fraction}")
    }
}

/// Returns the decimal digits of the next number.
fn incremented(digits: &str) -> String {
    let kept = digits.trim_end_matches('9');
    let nines = digits.len().saturating_sub(kept.len());
    let mut next = String::with_capacity(digits.len().saturating_add(1));
    let mut rest = kept.chars();
    let last = rest.next_back().and_then(|last| last.to_digit(10)).unwrap_or_default();
    next.push_str(rest.as_str());
    next.extend(char::from_digit(last.saturating_add(1), 10));
    next.extend(std::iter::repeat_n('0', nines));
    next
}

/// `BigDecimal.toString`: with an exponent if there would be more than five zeros after the point, or the scale is
/// negative.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = i64::try_from(self.digits.len()).unwrap_or(i64::MAX);
        let exponent = length - 1 - i64::from(self.scale);
        if self.scale >= 0 && exponent >= -6 {
            return f.write_str(&self.to_plain_string());
        }
        let sign = if self.negative { "-" } else { "" };
        let (first, rest) = self.digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if exponent < 0 { '-' } else { '+' };
        write!(f, "{sign}{first}{point}{rest}")?;
        if exponent == 0 { Ok(()) } else { write!(f, "E{exponent_sign}{}", exponent.unsigned_abs()) }
    }
}

/// Returns the digits as a number in base 2^32, least significant limb first.
fn magnitude(digits: &str) -> Vec<u32> {
    let mut limbs: Vec<u32> = Vec::with_capacity(digits.len() / DIGITS_PER_STEP + 1);
    let (mut addend, mut factor) = (0u32, 1u32);
    for (index, digit) in digits.bytes().map(|byte| u32::from(byte.wrapping_sub(b'0'))).enumerate() {
        (addend, factor) = (addend * 10 + digit, factor * 10);
        if (index + 1) % DIGITS_PER_STEP == 0 {
            multiply_add(&mut limbs, factor, addend);
            (addend, factor) = (0, 1);
        }
    }
    multiply_add(&mut limbs, factor, addend);
    limbs
}

/// Returns the decimal digits of a big-endian number, with zeros before them.
fn digits_of(magnitude: &[u8]) -> String {
    let limb = |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |limb, byte| limb << 8 | u32::from(*byte));
    let reversed: Vec<u8> = magnitude.iter().rev().copied().collect();
    // Most significant limb first.
    let mut limbs: Vec<u32> = reversed.chunks(size_of::<u32>()).map(limb).rev().collect();
    let mut steps = Vec::new();
    while limbs.iter().any(|limb| *limb != 0) {
        let mut rest = 0_u64;
        for limb in &mut limbs {
            let number = rest << 32 | u64::from(*limb);
            (*limb, rest) = (low(number / STEP), number % STEP);
        }
        steps.push(rest);
        let zeros = limbs.iter().take_while(|limb| **limb == 0).count();
        limbs.drain(..zeros);
    }
    steps.iter().rev().map(|step| format!("{step:0>DIGITS_PER_STEP$}")).collect()
}

/// Calculates `limbs * factor + addend`, in place.
fn multiply_add(limbs: &mut Vec<u32>, factor: u32, addend: u32) {
    let mut carry = u64::from(addend);
    for limb in limbs.iter_mut() {
        carry += u64::from(*limb) * u64::from(factor);
        *limb = low(carry);
        carry >>= 32;
    }
    if carry > 0 {
        limbs.push(low(carry));
    }
}

fn low(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap_or_default()
}

/// Negates a big-endian number in two's complement.
fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (sum, overflow) = (!*byte).overflowing_add(u8::from(carry));
        *byte = sum;
        carry = overflow;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unscaled_bytes_are_read_back(digits in "-?[0-9]{1,60}", scale in -5..20i32) {
            let number = Decimal { scale, ..Decimal::parse(&digits).unwrap() };
            prop_assert_eq!(Decimal::from_unscaled_bytes(&number.unscaled_bytes(), scale), Some(number));
        }
    }

    #[test]
    fn halves_are_rounded_away_from_zero() {
        let cases = [
            ("0.5", 0, "1"),
            ("-0.5", 0, "-1"),
            ("0.49", 0, "0"),
            ("2.445", 2, "2.45"),
            ("9.99", 1, "10.0"),
            ("99.95", 0, "100"),
            ("0.04", 0, "0"),
            ("0.05", 1, "0.1"),
            ("7", 2, "7.00"),
            ("0.00", 1, "0.0"),
        ];
        for (text, scale, rounded) in cases {
            let number = Decimal::parse(text).unwrap().rounded(scale).unwrap();
            assert_eq!(number.to_plain_string(), rounded, "{text} at {scale}");
        }
    }

    #[test]
    fn numbers_become_the_bytes_java_makes_of_them() {
        let cases: &[(&str, &[u8], &str)] = &[
            ("123.40", &[0x30, 0x34], "123.40"),
            ("0.00", &[0], "0.00"),
            ("-1.5", &[0xF1], "-1.5"),
            ("100", &[0x64], "100"),
            ("128", &[0, 0x80], "128"),
            ("-128", &[0x80], "-128"),
            ("-129", &[0xFF, 0x7F], "-129"),
            (
                "12345678901234567890.123",
                &[0x02, 0x9D, 0x42, 0xB6, 0x4E, 0x76, 0x71, 0x42, 0x44, 0xCB],
                "12345678901234567890.123",
            ),
            ("0.000001", &[1], "0.000001"),
            ("0.0000001", &[1], "1E-7"),
            ("0.00000012", &[12], "1.2E-7"),
        ];
        for (text, bytes, java) in cases {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!(decimal.unscaled_bytes().as_slice(), *bytes, "{text}");
            assert_eq!(decimal.to_string(), *java, "{text}");
            assert_eq!(decimal.to_plain_string(), *text);
        }
    }

    #[test]
    fn a_scale_is_changed_only_without_loss() {
        let scaled =
            |text: &str, scale| Decimal::parse(text).unwrap().with_scale(scale).map(|d| d.to_plain_string());
        assert_eq!(scaled("1.5", 3).as_deref(), Some("1.500"));
        assert_eq!(scaled("1.500", 1).as_deref(), Some("1.5"));
        assert_eq!(scaled("1200", -2).as_deref(), Some("1200"));
        assert_eq!(scaled("0", 2).as_deref(), Some("0.00"));
        assert_eq!(scaled("0.00", 0).as_deref(), Some("0"));
        assert_eq!(scaled("1.55", 1), None);
    }

    proptest! {
        #[test]
        fn small_numbers_agree_with_integers(unscaled: i64, scale in 0i32..30) {
            let magnitude = unscaled.unsigned_abs().to_string();
            let decimal = Decimal::new(unscaled < 0, &magnitude, scale);
            let bytes = decimal.unscaled_bytes();
            let sign = if unscaled < 0 { 0xFF } else { 0 };
            let mut wide = vec![sign; 16usize.saturating_sub(bytes.len())];
            wide.extend(&bytes);
            let number = i128::from_be_bytes(wide.try_into().unwrap());
            prop_assert_eq!(number, i128::from(unscaled));
            prop_assert_eq!(Decimal::parse(&decimal.to_plain_string()), Some(decimal));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text: String) {
            if let Some(decimal) = Decimal::parse(&text) {
                let _bytes = decimal.unscaled_bytes();
            }
        }
    }
}
