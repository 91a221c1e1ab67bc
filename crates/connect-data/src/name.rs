//! Adjustment of names to Avro's rules.

use std::borrow::Cow;

use super::option::OptionReader;

/// Adjustment of names to Avro's rules: `schema.name.adjustment.mode` and `field.name.adjustment.mode` (none).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameAdjustment {
    /// Names are not changed.
    #[default]
    None,
    /// A character that Avro does not accept becomes an underscore; a digit at the beginning gets one before it.
    Avro,
    /// A character that Avro does not accept, and the underscore, becomes `_u` and its code in hexadecimal digits.
    AvroUnicode,
}

/// Handling of points in a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Points {
    Kept,
    Replaced,
}

impl NameAdjustment {
    /// Reads a mode.
    pub fn read(options: &mut OptionReader<'_>, key: &str) -> Self {
        let modes = [("none", Self::None), ("avro", Self::Avro), ("avro_unicode", Self::AvroUnicode)];
        options.one_of(key, &modes, Self::None)
    }

    /// Returns the adjusted name of a schema, whose parts are separated by points.
    #[must_use]
    pub fn schema_name(self, name: &str) -> Cow<'_, str> {
        self.adjust(name, Points::Kept)
    }

    /// Returns the adjusted name of a field.
    #[must_use]
    pub fn field_name(self, name: &str) -> Cow<'_, str> {
        self.adjust(name, Points::Replaced)
    }

    fn adjust(self, name: &str, points: Points) -> Cow<'_, str> {
        if self == Self::None {
            return Cow::Borrowed(name);
        }
        // Java counts UTF-16 units: a character beyond U+FFFF is two of them.
        let mut adjusted = String::with_capacity(name.len());
        for (at, unit) in name.encode_utf16().enumerate() {
            match u8::try_from(unit).ok().filter(|byte| self.takes(*byte, at == 0, points)) {
                Some(byte) => adjusted.push(char::from(byte)),
                None => self.replace(&mut adjusted, unit, at == 0),
            }
        }
        Cow::Owned(adjusted)
    }

    const fn takes(self, byte: u8, is_first: bool, points: Points) -> bool {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => true,
            b'_' => matches!(self, Self::Avro),
            b'0'..=b'9' => !is_first,
            b'.' => !is_first && matches!(points, Points::Kept),
            _ => false,
        }
    }

    fn replace(self, adjusted: &mut String, unit: u16, is_first: bool) {
        if self == Self::AvroUnicode {
            // One or two digits are preceded by two zeros, three stay three.
            let digits = format!("{unit:x}");
            let zeros = if digits.len() <= 2 { "00" } else { "" };
            adjusted.extend(["_u", zeros, &digits]);
            return;
        }
        adjusted.push('_');
        if let Some(digit) = char::from_u32(u32::from(unit)).filter(|c| is_first && c.is_ascii_digit()) {
            adjusted.push(digit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_what_debezium_makes_of_them() {
        use NameAdjustment::{Avro, AvroUnicode};
        let cases = [
            ("aggregate id", "aggregate_id", "aggregate_u0020id"),
            ("aggregate_id", "aggregate_id", "aggregate_u005fid"),
            ("1type", "_1type", "_u0031type"),
            ("päy.load", "p_y_load", "p_u00e4y_u002eload"),
            ("x😀y", "x__y", "x_ud83d_ude00y"),
            ("a1", "a1", "a1"),
            ("\n", "_", "_u00a"),
            ("", "", ""),
        ];
        for (name, avro, unicode) in cases {
            assert_eq!(Avro.field_name(name), avro);
            assert_eq!(AvroUnicode.field_name(name), unicode);
            assert_eq!(NameAdjustment::None.field_name(name), name);
        }
        assert_eq!(Avro.schema_name("srv-1.public.out-box.Value"), "srv_1.public.out_box.Value");
        assert_eq!(AvroUnicode.schema_name("srv-1.a"), "srv_u002d1.a");
    }

    proptest! {
        #[test]
        fn adjusted_names_are_avro_names(name in ".{1,20}") {
            for mode in [NameAdjustment::Avro, NameAdjustment::AvroUnicode] {
                let adjusted = mode.field_name(&name).into_owned();
                prop_assert!(!adjusted.starts_with(|c: char| c.is_ascii_digit()));
                prop_assert!(adjusted.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'));
            }
        }
    }
}
