//! Lists of regular expressions for names.

use fancy_regex::Regex;

use super::{OptionError, OptionReader, java};

/// One of Debezium's lists of regular expressions for names: of tables, columns, message prefixes. An expression must
/// match the whole name, and ignores case.
#[derive(Debug, Clone, Default)]
pub struct NamePatterns(Vec<Pattern>);

/// An expression. Lists can have hundreds of names, each of which Debezium treats as an expression. A compiled
/// expression takes 25 kB.
#[derive(Debug, Clone)]
enum Pattern {
    /// A plain name, in lower case. `None` is a dot, which matches any character except a line end.
    Name(Box<[Option<u8>]>),
    Expression(Regex),
}

impl Pattern {
    fn new(java: &str) -> Result<Self, Box<fancy_regex::Error>> {
        match as_name(java) {
            Some(name) => Ok(Self::Name(name)),
            None => java::regex::compile_ignoring_case(java).map(Self::Expression),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(pattern) => is_named(pattern, name),
            Self::Expression(pattern) => pattern.is_match(name).unwrap_or(false),
        }
    }
}

/// Returns the name that an expression is if nothing but a dot has a special meaning in it.
fn as_name(java: &str) -> Option<Box<[Option<u8>]>> {
    let mut rest = java.bytes();
    let mut name = Vec::with_capacity(java.len());
    while let Some(byte) = rest.next() {
        name.push(match byte {
            b'.' => None,
            b'\\' => Some(rest.next().filter(|escaped| matches!(escaped, b'.' | b'$'))?),
            b'_' | b'-' | b' ' | b'"' => Some(byte),
            _ if byte.is_ascii_alphanumeric() => Some(byte.to_ascii_lowercase()),
            _ => return None,
        });
    }
    Some(name.into())
}

fn is_named(pattern: &[Option<u8>], name: &str) -> bool {
    let mut rest = name.chars();
    let fits = |expected: &Option<u8>| match (rest.next(), expected) {
        (None, _) => false,
        (Some(character), Some(byte)) => character.to_ascii_lowercase() == char::from(*byte),
        (Some(character), None) => !java::regex::ends_line(character),
    };
    pattern.iter().all(fits) && rest.next().is_none()
}

impl NamePatterns {
    /// Compiles the expressions of an option.
    ///
    /// # Errors
    /// When one is no regular expression.
    pub fn new(key: &str, patterns: &[String]) -> Result<Self, OptionError> {
        let compile = |pattern: &String| {
            Pattern::new(pattern).map_err(|error| {
                OptionError::new(key, pattern, format!("{pattern:?} is no regular expression: {error}"))
            })
        };
        patterns.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// Compiles the expressions of an option. An invalid expression is recorded as an error, and the list is empty.
    pub fn read(options: &mut OptionReader<'_>, key: &str, patterns: &[String]) -> Self {
        options.keep(Self::new(key, patterns)).unwrap_or_default()
    }

    /// Reports whether the list is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reports whether an expression matches. An expression that exceeds the backtracking limit does not match.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.place(name).is_some()
    }

    /// Sorts items by the first list entry that matches their name, then by name. Items without a match are last.
    pub fn arrange<T>(&self, named: &mut [T], name: impl Fn(&T) -> String) {
        named.sort_by_cached_key(|one| {
            let name = name(one);
            (self.place(&name).unwrap_or(usize::MAX), name)
        });
    }

    /// Returns the index of the first expression that matches.
    fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|pattern| pattern.matches(name))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_are_javas_match_the_whole_name_and_ignore_case() {
        let cases = [
            ("public.outbox", "public.outbox", true),
            ("public.outbox", "public.outbox_old", false),
            ("public.outbox", "xpublic.outbox", false),
            (r"public\.outbox.*", "public.outbox_old", true),
            ("PUBLIC.OutBox", "public.outbox", true),
            ("public.Out Box", "public.Out Box", true),
            ("public.(?!audit).*", "public.outbox", true),
            ("public.(?!audit).*", "public.audit", false),
            ("a|ab", "ab", true),
            (r"\Qpublic.out(box\E", "public.out(box", true),
            (r"\Qpublic.outbox\E", "public_outbox", false),
            (r"s\d", "s٣", false),
            (r"public\.outbox", "Public.Outbox", true),
            (r"public\.outbox", "public_outbox", false),
            ("public.outbox", "public\noutbox", false),
            ("public.outbox", "publicéoutbox", true),
            ("a b-c_D", "A B-c_d", true),
            ("", "", true),
            ("k", "\u{212a}", false),
        ];
        for (pattern, name, expected) in cases {
            let patterns = NamePatterns::new("k", &[pattern.to_owned()]).unwrap();
            assert_eq!(patterns.matches(name), expected, "{pattern} {name}");
        }
        assert!(!NamePatterns::default().matches(""));
        let error = NamePatterns::new("k", &["(".to_owned()]).unwrap_err();
        assert!(error.key == "k" && error.reason.contains("no regular expression"), "{error}");
    }

    proptest! {
        /// A name is what its expression would be.
        #[test]
        fn a_name_matches_what_its_expression_matches(
            java in r"([a-cK_ -]|\.|\\\.|\\\$){0,6}",
            name in "[A-Ca-ck_ .$\n\u{2028}é-]{0,6}",
        ) {
            let expression = java::regex::compile_ignoring_case(&java).unwrap();
            let Pattern::Name(pattern) = Pattern::new(&java).unwrap() else { panic!("{java} is a name") };
            prop_assert_eq!(is_named(&pattern, &name), expression.is_match(&name).unwrap());
        }
    }

    #[test]
    fn names_are_in_the_order_of_the_list() {
        let arranged = |list: &[&str]| {
            let list: Vec<_> = list.iter().map(|&pattern| pattern.to_owned()).collect();
            let mut names = ["c", "b", "a2", "a1", "other"];
            NamePatterns::new("k", &list).unwrap().arrange(&mut names, |&name| name.to_owned());
            names
        };
        assert_eq!(arranged(&["c", "A.", "a1", "b"]), ["c", "a1", "a2", "b", "other"]);
        assert_eq!(arranged(&[]), ["a1", "a2", "b", "c", "other"]);
    }
}
