//! Typed reading of settings. A mistake is recorded and yields the default, so that one run finds every mistake.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::connect::{NamePatterns, OptionError};
use crate::secret::Secret;

use super::error::Problem;
use super::notice::Notice;
use super::source::layers::Dialect;
use super::source::settings::{Setting, Settings};

/// Reader of settings, with the mistakes and notices that it has collected.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    pub settings: &'a Settings,
    pub dialect: Dialect,
    pub problems: Vec<Problem>,
    pub notices: Vec<Notice>,
}

/// Maximum of times, in milliseconds: a year, far below the range of clocks.
const MILLIS_MAX: i64 = 365 * 24 * 3_600_000;

impl<'a> Reader<'a> {
    pub(super) fn new(settings: &'a Settings, dialect: Dialect) -> Self {
        Self { settings, dialect, problems: Vec::new(), notices: Vec::new() }
    }

    /// Returns the value as it was written.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.settings.value(key)
    }

    /// Returns the trimmed value, unless it is blank.
    pub(super) fn filled(&self, key: &str) -> Option<&'a str> {
        self.text(key).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns a required value; reports a missing one and returns an empty text for it.
    pub(super) fn required(&mut self, key: &str, reason: &str, example: &str) -> String {
        match self.filled(key) {
            Some(value) => value.to_owned(),
            None => {
                self.missing(key, reason, &[(key, example)]);
                String::new()
            }
        }
    }

    pub(super) fn secret(&self, key: &str) -> Option<Secret> {
        self.text(key).map(Secret::new)
    }

    pub(super) fn path(&self, key: &str) -> Option<PathBuf> {
        self.filled(key).map(PathBuf::from)
    }

    /// Reads `true` or `false`, in any case.
    pub(super) fn boolean(&mut self, key: &str, default: bool) -> bool {
        self.choice(key, &[("true", true), ("false", false)], default)
    }

    /// Reads one of several names, in any case.
    pub(super) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, T)], default: T) -> T {
        let Some(setting) = self.settings.get(key) else { return default };
        let chosen = choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(setting.value.trim()));
        match chosen {
            Some((_, choice)) => *choice,
            None => {
                let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
                self.invalid(setting, format!("it must be one of {}", names.join(", ")));
                default
            }
        }
    }

    /// Reads a whole number in a range.
    pub(super) fn integer<T: TryFrom<i64>>(
        &mut self,
        key: &str,
        range: RangeInclusive<i64>,
        default: T,
    ) -> T {
        let Some(setting) = self.settings.get(key) else { return default };
        let number = setting.value.trim().parse().ok().filter(|number| range.contains(number));
        match number.and_then(|number| T::try_from(number).ok()) {
            Some(number) => number,
            None => {
                self.invalid(
                    setting,
                    format!("it must be a whole number, {} to {}", range.start(), range.end()),
                );
                default
            }
        }
    }

    /// Reads milliseconds, at least `least`.
    pub(super) fn millis(&mut self, key: &str, least: i64, default: Duration) -> Duration {
        let default_ms = u64::try_from(default.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.integer(key, least..=MILLIS_MAX, default_ms))
    }

    /// Reads milliseconds; `None` for -1, which means no limit.
    pub(super) fn patience(&mut self, key: &str, default: Duration) -> Option<Duration> {
        let default_ms = i64::try_from(default.as_millis()).unwrap_or(i64::MAX);
        let millis = self.integer(key, -1..=MILLIS_MAX, default_ms);
        u64::try_from(millis).ok().map(Duration::from_millis)
    }

    /// Reads comma-separated regular expressions, in which `\,` is a comma (Debezium's `RegExSplitter`).
    pub(super) fn regex_list(&mut self, key: &str) -> Vec<String> {
        let Some(setting) = self.settings.get(key) else { return Vec::new() };
        split_regexes(&setting.value).unwrap_or_else(|| {
            self.invalid(setting, "it must not end in a lone backslash");
            Vec::new()
        })
    }

    /// Reads regular expressions for names. Returns `None` when the key is not set, or has a mistake.
    pub(super) fn patterns(&mut self, key: &str) -> Option<NamePatterns> {
        let list = self.regex_list(key);
        let setting = self.settings.get(key)?;
        match NamePatterns::new(key, &list) {
            Ok(patterns) => Some(patterns),
            Err(OptionError { reason, .. }) => {
                self.invalid(setting, reason);
                None
            }
        }
    }

    /// Refuses lists of included and of excluded names together, as Debezium does.
    pub(super) fn refuse_both(&mut self, include: &str, exclude: &str) {
        let excluded = self.settings.get(exclude).filter(|_| self.filled(exclude).is_some());
        if let Some(setting) = excluded.filter(|_| self.filled(include).is_some()) {
            self.invalid(
                setting,
                format!("{include:?} is already specified, and Debezium accepts only one of the two"),
            );
        }
    }

    pub(super) fn invalid(&mut self, setting: &Setting, allowed: impl Into<String>) {
        self.problems.push(Problem::invalid(setting, allowed));
    }

    /// Reports a missing key, with the lines to add.
    pub(super) fn missing(&mut self, key: &str, reason: &str, lines: &[(&str, &str)]) {
        self.problems.push(self.dialect.missing(key, reason, lines));
    }

    /// Adds a notice about the value of a key that is not set.
    pub(super) fn note_default(&mut self, key: &str, text: impl Into<String>) {
        self.notices.push(Notice::default_value(&self.dialect.spelled(key), text));
    }

    /// Adds a notice about a value that is used instead of the one that is set.
    pub(super) fn assume(&mut self, key: &str, text: impl Into<String>) {
        self.notices.push(Notice::assumption(&self.dialect.spelled(key), text));
    }
}

pub(super) fn split_regexes(list: &str) -> Option<Vec<String>> {
    let mut items = vec![String::new()];
    let mut chars = list.chars();
    while let Some(c) = chars.next() {
        let (escaped, c) = if c == '\\' { (true, chars.next()?) } else { (false, c) };
        if c == ',' && !escaped {
            items.push(String::new());
            continue;
        }
        if let Some(item) = items.last_mut() {
            if escaped && c != ',' {
                item.push('\\');
            }
            item.push(c);
        }
    }
    Some(items.iter().map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::source::settings::Origin;

    fn settings(value: &str) -> Settings {
        let mut settings = Settings::default();
        let origin = Origin::File { path: "a.properties".into(), line: Some(3) };
        settings
            .insert("k".into(), Setting { written: "k".into(), value: value.into(), origin, secret: false });
        settings
    }

    fn read<T>(value: &str, read: impl Fn(&mut Reader<'_>) -> T) -> Result<T, String> {
        let settings = settings(value);
        let mut reader = Reader::new(&settings, Dialect::Connect);
        let found = read(&mut reader);
        reader.problems.first().map_or(Ok(found), |problem| Err(problem.to_string()))
    }

    #[test]
    fn values_are_typed_and_errors_say_where() {
        assert_eq!(read(" TRUE ", |r| r.boolean("k", false)), Ok(true));
        let error = "a.properties:3: k=yes is not allowed: it must be one of true, false";
        assert_eq!(read("yes", |r| r.boolean("k", false)), Err(error.into()));
        assert_eq!(read("7", |r| r.integer("k", 1..=9, 3u16)), Ok(7));
        assert_eq!(read("7", |r| r.integer("other", 1..=9, 3u16)), Ok(3));
        let error = "a.properties:3: k=10 is not allowed: it must be a whole number, 1 to 9";
        assert_eq!(read("10", |r| r.integer("k", 1..=9, 3u16)), Err(error.into()));
        assert!(read("1.5", |r| r.integer("k", 1..=9, 3u16)).is_err());
        assert_eq!(read("1500", |r| r.millis("k", 0, Duration::ZERO)), Ok(Duration::from_millis(1500)));
        assert!(read("9223372036854775807", |r| r.millis("k", 0, Duration::ZERO)).is_err());
        assert_eq!(read("-1", |r| r.patience("k", Duration::ZERO)), Ok(None));
    }

    #[test]
    fn regex_lists_split_as_debezium_does() {
        let cases: [(&str, Option<&[&str]>); 6] = [
            ("a,b", Some(&["a", "b"])),
            (" public\\.outbox , x ", Some(&["public\\.outbox", "x"])),
            ("a{1\\,2},b", Some(&["a{1,2}", "b"])),
            (",,", Some(&[])),
            ("a\\\\,b", Some(&["a\\\\", "b"])),
            ("a\\", None),
        ];
        for (list, expected) in cases {
            let expected = expected.map(|items| items.iter().map(|item| (*item).to_owned()).collect());
            assert_eq!(split_regexes(list), expected, "{list}");
        }
    }

    proptest! {
        #[test]
        fn escaped_commas_are_read_back(items in proptest::collection::vec("[a-z.*,]{0,5}[a-z]", 1..5)) {
            let list = items.iter().map(|item| item.replace(',', "\\,")).collect::<Vec<_>>().join(" , ");
            prop_assert_eq!(split_regexes(&list), Some(items));
        }
    }
}
