//! JSON strings as Jackson writes them.

/// Output form of characters beyond U+FFFF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NonBmp {
    /// Two escaped surrogates, as Jackson writes into bytes.
    Escaped,
    /// The characters themselves, as Jackson writes into characters.
    Raw,
}

/// Appends a string in quotes.
pub fn write_string(out: &mut Vec<u8>, text: &str, non_bmp: NonBmp) {
    out.push(b'"');
    write_escaped(out, text, non_bmp);
    out.push(b'"');
}

/// Number of bytes that are checked together, in one step of a vectorizing processor.
const CHUNK_BYTES: usize = 16;

fn write_escaped(out: &mut Vec<u8>, text: &str, non_bmp: NonBmp) {
    let mut rest = text;
    while let Some(at) = first_escaped(rest.as_bytes(), non_bmp) {
        let Some((plain, behind)) = rest.split_at_checked(at) else { break };
        out.extend_from_slice(plain.as_bytes());
        let mut characters = behind.chars();
        if let Some(character) = characters.next() {
            write_escape(out, character);
        }
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Returns the index of the first byte that must be escaped.
fn first_escaped(bytes: &[u8], non_bmp: NonBmp) -> Option<usize> {
    let first_beyond = match non_bmp {
        NonBmp::Escaped => 0xF0,
        // Not a byte of UTF-8.
        NonBmp::Raw => 0xFF,
    };
    // Without `||`, so that the checks of the bytes do not depend on each other.
    let is_escaped = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\') | (byte >= first_beyond);
    let (chunks, _) = bytes.as_chunks::<CHUNK_BYTES>();
    let has_escaped =
        |chunk: &[u8; CHUNK_BYTES]| chunk.iter().fold(false, |any, byte| any | is_escaped(*byte));
    let plain = chunks.iter().take_while(|chunk| !has_escaped(chunk)).count() * CHUNK_BYTES;
    let at = bytes.get(plain..)?.iter().position(|byte| is_escaped(*byte))?;
    Some(plain + at)
}

fn write_escape(out: &mut Vec<u8>, character: char) {
    match character {
        '"' => out.extend(b"\\\""),
        '\\' => out.extend(b"\\\\"),
        '\u{8}' => out.extend(b"\\b"),
        '\t' => out.extend(b"\\t"),
        '\n' => out.extend(b"\\n"),
        '\u{c}' => out.extend(b"\\f"),
        '\r' => out.extend(b"\\r"),
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                write_unit(out, *unit);
            }
        }
    }
}

/// Appends a UTF-16 code unit as `\uXXXX`, in upper case.
fn write_unit(out: &mut Vec<u8>, unit: u16) {
    out.extend(b"\\u");
    for shift in [12, 8, 4, 0] {
        let digit = u32::from(unit >> shift & 0xF);
        let digit = char::from_digit(digit, 16).unwrap_or('0').to_ascii_uppercase();
        out.extend(digit.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(text: &str) -> String {
        let mut out = Vec::new();
        write_string(&mut out, text, NonBmp::Escaped);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_jackson_does() {
        let cases = [
            (
                "\u{0}\u{1}\u{7}\u{8}\t\n\u{b}\u{c}\r\u{e}\u{1f}",
                r#""\u0000\u0001\u0007\b\t\n\u000B\f\r\u000E\u001F""#,
            ),
            ("\"\\/<>&'\u{7f}", "\"\\\"\\\\/<>&'\u{7f}\""),
            ("\u{2028}\u{2029}\u{ffff}é€", "\"\u{2028}\u{2029}\u{ffff}é€\""),
            ("a😀b", r#""a\uD83D\uDE00b""#),
        ];
        for (text, json) in cases {
            assert_eq!(written(text), json);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(text: String) {
            let read: String = serde_json::from_str::<serde_json::Value>(&written(&text)).unwrap().as_str().unwrap().to_owned();
            prop_assert_eq!(read, text);
        }
    }
}
