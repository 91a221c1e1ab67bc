//! Regular expressions of `java.util.regex`, translated for a Rust engine.

use fancy_regex::{Error, Regex};

/// Compiles an expression twice: as it is, and as one that must match a whole text.
///
/// # Errors
/// When it is no expression.
pub fn compile(java: &str) -> Result<(Regex, Regex), Box<Error>> {
    let pattern = translate(java);
    let find = Regex::new(&pattern)?;
    let whole = Regex::new(&format!("\\A(?:{pattern})\\z"))?;
    Ok((find, whole))
}

/// Compiles an expression that must match a whole text, in any case.
///
/// # Errors
/// When it is no expression.
pub fn compile_ignoring_case(java: &str) -> Result<Regex, Box<Error>> {
    Ok(Regex::new(&format!("(?i)\\A(?:{})\\z", translate(java)))?)
}

/// Reports whether a character is a line end, which Java's `.` does not match.
pub const fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Translates a Java expression. Java's `\d`, `\w` and `\s` are ASCII, and so are the characters whose case it ignores;
/// its `.` excludes more line ends, and it quotes with `\Q…\E`.
fn translate(java: &str) -> String {
    let mut pattern = String::with_capacity(java.len());
    let mut rest = java.chars();
    // Number of open character classes.
    let mut depth = 0usize;
    let (dot_all, any_case) = (sets_flag(java, 's'), sets_flag(java, 'u'));
    while let Some(character) = rest.next() {
        match character {
            '\\' => rest = escape(&mut pattern, rest, depth > 0),
            letter if !letter.is_ascii() && depth == 0 && !any_case => in_its_case(&mut pattern, letter),
            '.' if depth == 0 && !dot_all => pattern.push_str(r"[^\n\r\x{85}\x{2028}\x{2029}]"),
            other => {
                match other {
                    '[' => depth += 1,
                    ']' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                pattern.push(other);
            }
        }
    }
    pattern
}

/// Reports whether the expression sets an inline flag: with `(?s)` or `(?is:` the point matches line ends, with `(?u)`
/// the case of non-ASCII characters may be ignored too.
fn sets_flag(java: &str, wanted: char) -> bool {
    java.split("(?")
        .skip(1)
        .any(|group| group.chars().take_while(char::is_ascii_alphabetic).any(|flag| flag == wanted))
}

fn in_its_case(pattern: &mut String, letter: char) {
    pattern.extend(["(?-i:", letter.encode_utf8(&mut [0; 4]), ")"]);
}

/// Translates what follows a backslash, and returns the rest of the expression.
fn escape<'a>(pattern: &mut String, mut rest: std::str::Chars<'a>, in_class: bool) -> std::str::Chars<'a> {
    let class = |inside: &'static str, outside: &'static str| if in_class { inside } else { outside };
    match rest.next() {
        Some('d') => pattern.push_str(class("0-9", "[0-9]")),
        Some('w') => pattern.push_str(class("a-zA-Z0-9_", "[a-zA-Z0-9_]")),
        Some('s') => pattern.push_str(class(r" \t\n\x0B\f\r", r"[ \t\n\x0B\f\r]")),
        Some('D') => pattern.push_str("[^0-9]"),
        Some('W') => pattern.push_str("[^a-zA-Z0-9_]"),
        Some('S') => pattern.push_str(r"[^ \t\n\x0B\f\r]"),
        Some('Q') => {
            let quoted = rest.as_str();
            let (literal, behind) = quoted.split_once("\\E").unwrap_or((quoted, ""));
            for character in fancy_regex::escape(literal).chars() {
                if character.is_ascii() { pattern.push(character) } else { in_its_case(pattern, character) }
            }
            return behind.chars();
        }
        Some(other) => pattern.extend(['\\', other]),
        None => pattern.push('\\'),
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn expressions_match_what_they_match_in_java() {
        let cases = [
            (r"shop\.(.*)", "shop.order", true),
            (r"shop\.(.*)", "shopXorder", false),
            ("(Ord)", "Order", false),
            ("a|ab", "ab", true),
            (r"\d+", "٣", false),
            (r"[\d-]+", "1-2", true),
            (r"\w+", "é", false),
            (".*", "a\nb", false),
            (".*", "a\u{2028}b", false),
            ("(?is).*", "a\nb", true),
            ("(?<s>.*)", "a\nb", false),
            (r"\Qa.b\E+", "a.bbb", true),
            ("(?i)bü+cher", "Büücher", true),
            ("(?i)bücher", "BÜCHER", false),
            (r"(?i)\Qbü.\E", "Bü.", true),
            (r"(?i)\Qbü.\E", "BÜ.", false),
            ("(?iu)bücher", "BÜCHER", true),
            (r"\Qa.b\E", "axb", false),
            ("(?!x).*", "y", true),
            (r"(a)\1", "aa", true),
            ("[^.]+", "ab", true),
            ("(?i)ORDER", "order", true),
        ];
        for (java, text, matches) in cases {
            let (_, whole) = compile(java).expect(java);
            assert_eq!(whole.is_match(text).unwrap(), matches, "{java} on {text}");
        }
        assert!(compile(" [[a-z]").is_err());
    }

    proptest! {
        #[test]
        fn any_expression_is_compiled_or_refused(java in r"[\\a-eQEdws()\[\]^.*+?|{}$0-9<>:]{0,16}") {
            let _result = compile(&java);
        }
    }
}
