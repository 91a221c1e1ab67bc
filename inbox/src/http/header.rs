//! The header `Idempotency-Key`.

use thiserror::Error;

/// Maximum length of a key, in bytes.
const BYTES_MAX: usize = 255;

/// Reason why a header contains no valid key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MalformedKey {
    /// The header occurs more than once.
    #[error("the header is there more than once")]
    Repeated,
    /// The key is empty.
    #[error("it is empty")]
    Empty,
    /// The key is longer than 255 bytes.
    #[error("it is longer than {BYTES_MAX} characters")]
    TooLong,
    /// The closing quotation mark is missing, something other than parameters follows it, or the value contains a character that is not
    /// allowed.
    #[error("it is neither a text in quotation marks nor one word without them")]
    NoText,
}

/// Returns the key in the values of the header `Idempotency-Key`, or `None` if there is no such header.
///
/// The draft requires a text in quotation marks (a string of RFC 9651). Most clients send it without them, so that form is accepted too.
pub(super) fn key<'v>(mut values: impl Iterator<Item = &'v [u8]>) -> Result<Option<String>, MalformedKey> {
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(MalformedKey::Repeated);
    }
    let value = value.trim_ascii();
    let key = match value.strip_prefix(b"\"") {
        Some(quoted) => unquote(quoted)?,
        None => word(value)?,
    };
    match key.len() {
        0 => Err(MalformedKey::Empty),
        1..=BYTES_MAX => Ok(Some(key)),
        _ => Err(MalformedKey::TooLong),
    }
}

fn word(value: &[u8]) -> Result<String, MalformedKey> {
    let belongs = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';');
    if !value.iter().all(belongs) {
        return Err(MalformedKey::NoText);
    }
    String::from_utf8(value.to_vec()).map_err(|_| MalformedKey::NoText)
}

/// Reads a string up to its closing quotation mark. Parameters that follow it are ignored.
fn unquote(quoted: &[u8]) -> Result<String, MalformedKey> {
    let mut key = String::new();
    let mut bytes = quoted.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {
                let rest = bytes.as_slice().trim_ascii_start();
                return if rest.is_empty() || rest.starts_with(b";") {
                    Ok(key)
                } else {
                    Err(MalformedKey::NoText)
                };
            }
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(*escaped)),
                _ => return Err(MalformedKey::NoText),
            },
            b' '..=b'~' => key.push(char::from(*byte)),
            _ => return Err(MalformedKey::NoText),
        }
    }
    Err(MalformedKey::NoText)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_read_with_and_without_quotation_marks() {
        let long = "x".repeat(BYTES_MAX + 1);
        let cases: [(&str, Result<&str, MalformedKey>); 12] = [
            (r#""8e03978e-40d5""#, Ok("8e03978e-40d5")),
            ("8e03978e-40d5", Ok("8e03978e-40d5")),
            (r#" "a \"b\" \\";v=1 "#, Ok(r#"a "b" \"#)),
            ("", Err(MalformedKey::Empty)),
            (r#""""#, Err(MalformedKey::Empty)),
            (r#""open"#, Err(MalformedKey::NoText)),
            (r#""a" b"#, Err(MalformedKey::NoText)),
            (r#""a\n""#, Err(MalformedKey::NoText)),
            ("two words", Err(MalformedKey::NoText)),
            ("a, b", Err(MalformedKey::NoText)),
            ("ö", Err(MalformedKey::NoText)),
            (&long, Err(MalformedKey::TooLong)),
        ];
        for (value, expected) in cases {
            let expected = expected.map(|key| Some(key.to_owned()));
            assert_eq!(key(std::iter::once(value.as_bytes())), expected, "{value}");
        }
        assert_eq!(key(std::iter::empty()), Ok(None));
        assert_eq!(key([&b"a"[..], b"b"].into_iter()), Err(MalformedKey::Repeated));
    }

    proptest! {
        #[test]
        fn any_text_in_quotation_marks_is_read_back(text in "[ -~]{1,255}") {
            let quoted = format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\""));
            prop_assert_eq!(key(std::iter::once(quoted.as_bytes())), Ok(Some(text)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(Some(key)) = key(std::iter::once(&bytes[..])) {
                prop_assert!(!key.is_empty() && key.len() <= BYTES_MAX);
            }
        }
    }
}
