//! Control characters in output.

use std::fmt;

/// Writes through to another writer with every control character escaped, so that a value cannot move the cursor,
/// change colours or begin a line of its own.
pub(crate) struct Escaping<W>(pub(crate) W);

impl<W: fmt::Write> fmt::Write for Escaping<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.chars().try_for_each(|c| self.write_char(c))
    }

    fn write_char(&mut self, c: char) -> fmt::Result {
        if c.is_control() { write!(self.0, "{}", c.escape_default()) } else { self.0.write_char(c) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_control_character_passes(text: String) {
            let mut escaped = String::new();
            write!(Escaping(&mut escaped), "{text}").unwrap();
            prop_assert!(!escaped.contains(char::is_control));
            if !text.contains(char::is_control) {
                prop_assert_eq!(escaped, text);
            }
        }
    }

    #[test]
    fn escapes_are_readable() {
        let mut escaped = String::new();
        write!(Escaping(&mut escaped), "a\n\u{1b}[31mb\u{9b}é→").unwrap();
        assert_eq!(escaped, "a\\n\\u{1b}[31mb\\u{9b}é→");
    }
}
