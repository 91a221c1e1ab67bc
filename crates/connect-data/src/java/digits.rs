//! Decimal digits of other scripts, which Java's numbers and dates may have (`Character.isDigit`).

use std::borrow::Cow;

/// The zeros outside of ASCII, in the Basic Multilingual Plane; nine digits follow each of them.
const ZEROS: [char; 36] = [
    '\u{0660}', '\u{06F0}', '\u{07C0}', '\u{0966}', '\u{09E6}', '\u{0A66}', '\u{0AE6}', '\u{0B66}',
    '\u{0BE6}', '\u{0C66}', '\u{0CE6}', '\u{0D66}', '\u{0DE6}', '\u{0E50}', '\u{0ED0}', '\u{0F20}',
    '\u{1040}', '\u{1090}', '\u{17E0}', '\u{1810}', '\u{1946}', '\u{19D0}', '\u{1A80}', '\u{1A90}',
    '\u{1B50}', '\u{1BB0}', '\u{1C40}', '\u{1C50}', '\u{A620}', '\u{A8D0}', '\u{A900}', '\u{A9D0}',
    '\u{A9F0}', '\u{AA50}', '\u{ABF0}', '\u{FF10}',
];

/// Returns the text with all digits as ASCII digits.
pub(crate) fn with_ascii_digits(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|character| ascii_digit(character).unwrap_or(character)).collect())
}

fn ascii_digit(character: char) -> Option<char> {
    let place = |zero: &char| u32::from(character).checked_sub(u32::from(*zero));
    ZEROS.iter().filter_map(place).find_map(|place| char::from_digit(place, 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_all_scripts_are_read() {
        for (text, ascii) in
            [("-1.5e3", "-1.5e3"), ("٣٫١", "3٫1"), ("０９:", "09:"), ("½²Ⅳ", "½²Ⅳ"), ("1९", "19")]
        {
            assert_eq!(with_ascii_digits(text), ascii);
        }
    }
}
