//! `java.text.SimpleDateFormat`, in UTC and English.

use std::fmt::Write as _;

use super::date::{MONTHS, WEEKDAYS, calendar_date, calendar_days, clock};
use crate::column::{civil_date, civil_days};

const MILLIS_PER_DAY: i64 = 86_400_000;
const LETTERS: &str = "yMdHhKkmsSaEDuzZX";
const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAY_NAMES: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A pattern for dates and times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DateFormat(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(char),
    /// A pattern letter, and the number of its repetitions.
    Field(char, usize),
}

/// Date fields that were read from a text.
#[derive(Debug, Clone, Copy)]
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    /// Day of the year from 1, if the pattern has it.
    day_of_year: Option<i64>,
    hour: i64,
    /// True if the hour is on a 12-hour clock, in the afternoon.
    is_afternoon: bool,
    minute: i64,
    second: i64,
    millis: i64,
    /// Offset of the time zone: minutes ahead of UTC.
    offset_minutes: i64,
}

impl DateFormat {
    /// Reads a pattern. Returns `None` for an unclosed quote, and for a letter that Java does not know or that is not
    /// supported.
    pub(crate) fn compile(pattern: &str) -> Option<Self> {
        let mut parts = Vec::new();
        let mut rest = pattern.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\'' if rest.next_if_eq(&'\'').is_some() => parts.push(Part::Literal('\'')),
                '\'' => loop {
                    match rest.next()? {
                        '\'' if rest.next_if_eq(&'\'').is_some() => parts.push(Part::Literal('\'')),
                        '\'' => break,
                        other => parts.push(Part::Literal(other)),
                    }
                },
                letter if letter.is_ascii_alphabetic() => {
                    let mut count = 1usize;
                    while rest.next_if_eq(&letter).is_some() {
                        count = count.saturating_add(1);
                    }
                    LETTERS.contains(letter).then(|| parts.push(Part::Field(letter, count)))?;
                }
                other => parts.push(Part::Literal(other)),
            }
        }
        Some(Self(parts))
    }

    /// Formats a time in milliseconds since the Unix epoch.
    pub(crate) fn format(&self, millis: i64) -> String {
        let days = millis.div_euclid(MILLIS_PER_DAY);
        let (year, month, day) = calendar_date(days);
        let [hours, minutes, seconds, fraction] = clock(millis);
        let weekday = (days + 4).rem_euclid(7);
        let year_of_era = if year > 0 { year } else { 1 - year };
        let mut out = String::new();
        for part in &self.0 {
            let (letter, width) = match *part {
                Part::Literal(character) => {
                    out.push(character);
                    continue;
                }
                Part::Field(letter, count) => (letter, count),
            };
            let number = match letter {
                'y' if width == 2 => year_of_era % 100,
                'y' => year_of_era,
                'M' if width >= 3 => {
                    out.push_str(name(if width == 3 { &MONTHS } else { &MONTH_NAMES }, month - 1));
                    continue;
                }
                'M' => month,
                'd' => day,
                'D' => days - civil_days(civil_date(days).0, 1, 1) + 1,
                'E' => {
                    out.push_str(name(if width <= 3 { &WEEKDAYS } else { &WEEKDAY_NAMES }, weekday));
                    continue;
                }
                'u' => (weekday + 6) % 7 + 1,
                'H' => hours,
                'k' => {
                    if hours == 0 {
                        24
                    } else {
                        hours
                    }
                }
                'K' => hours % 12,
                'h' => {
                    if hours % 12 == 0 {
                        12
                    } else {
                        hours % 12
                    }
                }
                'm' => minutes,
                's' => seconds,
                'S' => fraction,
                'a' => {
                    out.push_str(if hours < 12 { "AM" } else { "PM" });
                    continue;
                }
                'z' => {
                    out.push_str(if width < 4 { "UTC" } else { "Coordinated Universal Time" });
                    continue;
                }
                'Z' => {
                    out.push_str("+0000");
                    continue;
                }
                _ => {
                    out.push('Z');
                    continue;
                }
            };
            let _infallible = write!(out, "{number:0width$}");
        }
        out
    }

    /// Reads a text, and ignores what follows the pattern's end. Numbers beyond their range carry over into the next
    /// larger unit, as in Java's lenient calendar. A year of two digits is rejected if the pattern has at most two.
    pub(crate) fn parse(&self, text: &str) -> Option<i64> {
        let mut moment = Moment::EPOCH;
        let mut rest = text;
        for (index, part) in self.0.iter().enumerate() {
            match *part {
                Part::Literal(character) => rest = rest.strip_prefix(character)?,
                Part::Field(letter, count) => {
                    let is_next_number = matches!(self.0.get(index.saturating_add(1)), Some(Part::Field(next, _)) if is_number(*next));
                    let limit = if is_next_number { count } else { usize::MAX };
                    rest = moment.read(letter, count, limit, rest)?;
                }
            }
        }
        moment.millis()
    }
}

impl Moment {
    const EPOCH: Self = Self {
        year: 1970,
        month: 1,
        day: 1,
        day_of_year: None,
        hour: 0,
        is_afternoon: false,
        minute: 0,
        second: 0,
        millis: 0,
        offset_minutes: 0,
    };

    /// Reads one field, and returns the text behind it.
    fn read<'t>(&mut self, letter: char, count: usize, limit: usize, text: &'t str) -> Option<&'t str> {
        match letter {
            'a' => {
                let (half, rest) = text.split_at_checked(2)?;
                self.is_afternoon = half.eq_ignore_ascii_case("PM");
                return (self.is_afternoon || half.eq_ignore_ascii_case("AM")).then_some(rest);
            }
            'M' if count >= 3 => {
                let (month, rest) = named(&MONTH_NAMES, text).or_else(|| named(&MONTHS, text))?;
                self.month = month + 1;
                return Some(rest);
            }
            'E' => {
                return named(&WEEKDAY_NAMES, text).or_else(|| named(&WEEKDAYS, text)).map(|(_, rest)| rest);
            }
            'z' | 'Z' | 'X' => {
                let (offset, rest) = zone(text)?;
                self.offset_minutes = offset;
                return Some(rest);
            }
            _ => {}
        }
        let (number, digits, rest) = number(text, limit)?;
        match letter {
            'y' if count <= 2 && digits <= 2 => return None,
            'y' => self.year = number,
            'M' => self.month = number,
            'd' => self.day = number,
            'D' => self.day_of_year = Some(number),
            'H' => self.hour = number,
            'k' => self.hour = number % 24,
            'h' | 'K' => self.hour = number % 12,
            'm' => self.minute = number,
            's' => self.second = number,
            'S' => self.millis = number,
            _ => {}
        }
        Some(rest)
    }

    fn millis(&self) -> Option<i64> {
        let months = self.year.checked_mul(12)?.checked_add(self.month - 1)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        if year.abs() > 9_999_999 {
            return None;
        }
        let days = match self.day_of_year {
            Some(day) => calendar_days(year, 1, day)?,
            None => calendar_days(year, month, self.day)?,
        };
        let hour = if self.is_afternoon { self.hour.checked_add(12)? } else { self.hour };
        let minutes = hour.checked_mul(60)?.checked_add(self.minute)?.checked_sub(self.offset_minutes)?;
        let seconds = minutes.checked_mul(60)?.checked_add(self.second)?;
        let of_day = seconds.checked_mul(1000)?.checked_add(self.millis)?;
        days.checked_mul(MILLIS_PER_DAY)?.checked_add(of_day)
    }
}

fn is_number(letter: char) -> bool {
    !matches!(letter, 'a' | 'E' | 'z' | 'Z' | 'X')
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

/// Returns the index of the name with which the text begins, and the text behind it.
fn named<'t>(names: &[&str], text: &'t str) -> Option<(i64, &'t str)> {
    let starts = |name: &&str| text.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name));
    let (index, name) = names.iter().enumerate().find(|(_, name)| starts(name))?;
    Some((i64::try_from(index).ok()?, text.get(name.len()..)?))
}

/// Reads a number of at most `limit` digits, with blanks and a minus before it. Returns the number, the count of its digits, and
/// the text behind it.
fn number(text: &str, limit: usize) -> Option<(i64, usize, &str)> {
    let text = text.trim_start_matches([' ', '\t']);
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let digits = text.bytes().take_while(u8::is_ascii_digit).count().min(limit);
    let (number, rest) = text.split_at_checked(digits)?;
    let number: i64 = number.parse().ok()?;
    Some((number.checked_mul(sign)?, digits, rest))
}

/// Reads a time zone: `UTC`, `GMT`, `Z`, `+02`, `+0200`, `+02:00`. Returns the minutes ahead of UTC, and the text
/// behind it.
fn zone(text: &str) -> Option<(i64, &str)> {
    for name in ["UTC", "GMT", "Z"] {
        if let Some(rest) = text.strip_prefix(name) {
            return Some((0, rest));
        }
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let (hours, count, rest) = number(digits, 2)?;
    let (minutes, rest) = match number(rest.strip_prefix(':').unwrap_or(rest), 2) {
        Some((minutes, 2, rest)) => (minutes, rest),
        _ => (0, rest),
    };
    (count == 2).then_some((sign * (hours * 60 + minutes), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_written_as_in_java() {
        let cases = [
            ("yyyyMMdd", 1_709_251_199_999, "20240229"),
            ("yyyy-MM-dd HH:mm:ss.SSS", 1_704_164_645_678, "2024-01-02 03:04:05.678"),
            ("yyyy-MM-dd'T'HH:mm:ss'Z'", 0, "1970-01-01T00:00:00Z"),
            ("yy M d H k K h m s S", 0, "70 1 1 0 24 0 12 0 0 0"),
            ("EEE EEEE u a MMM MMMM", 46_800_000, "Thu Thursday 4 PM Jan January"),
            ("D DDD", 1_709_251_199_999, "60 060"),
            ("D", 1_735_603_200_000, "366"),
            ("z Z X ''", 0, "UTC +0000 Z '"),
            ("'o''clock' h", 0, "o'clock 12"),
        ];
        for (pattern, millis, text) in cases {
            assert_eq!(DateFormat::compile(pattern).expect(pattern).format(millis), text, "{pattern}");
        }
        for refused in ["Q", "'open", "yyyy w"] {
            assert_eq!(DateFormat::compile(refused), None, "{refused}");
        }
    }

    #[test]
    fn times_are_read_as_in_java() {
        let cases = [
            ("yyyyMMdd", "20240229", Some(1_709_164_800_000)),
            ("yyyyMMddHHmmss", "20240102030405", Some(1_704_164_645_000)),
            ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-02 03:04:05.678901", Some(1_704_164_645_000 + 678_901)),
            ("yyyy-MM-dd", "2024-01-02 and more", Some(1_704_153_600_000)),
            ("yyyy-MM-dd", "2024-13-01", Some(1_735_689_600_000)),
            ("d MMM yyyy h:mm a", "2 Jan 2024 3:04 pm", Some(1_704_207_840_000)),
            ("yyyy-MM-dd'T'HH:mmX", "2024-01-02T03:04+02", Some(1_704_157_440_000)),
            ("yyyy-MM-dd'T'HH:mmZ", "2024-01-02T03:04-0130", Some(1_704_170_040_000)),
            ("yyyy-MM-dd", "1500-01-01", Some(-171_655 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "1582-10-10", Some(-141_422 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "1582-10-20", Some(-141_422 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "0001-02-03", Some(-719_131 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "-024-01-02", Some(-728_295 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "2024- 1-\t2", Some(1_704_153_600_000)),
            ("yyyy-MM-dd", "2024--1-02", Some(19_663 * MILLIS_PER_DAY)),
            ("yyyy-MM-dd", "2024-\n1-02", None),
            ("yyyy-MM-dd", "2024/01/02", None),
            ("yyyy-MM-dd", "", None),
            ("yy", "24", None),
        ];
        for (pattern, text, millis) in cases {
            assert_eq!(DateFormat::compile(pattern).expect(pattern).parse(text), millis, "{pattern} {text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(millis in -62_000_000_000_000i64..200_000_000_000_000) {
            let format = DateFormat::compile("yyyy-MM-dd HH:mm:ss.SSS").unwrap();
            prop_assert_eq!(format.parse(&format.format(millis)), Some(millis));
        }

        #[test]
        fn any_pattern_and_text_is_read_or_refused(pattern in "[-yMdHmsSaEzX' .:]{0,12}", text in "[-0-9a-zA-Z+ .:]{0,24}") {
            if let Some(format) = DateFormat::compile(&pattern) {
                let _read = format.parse(&text);
                let _written = format.format(i64::MAX);
                let _written = format.format(i64::MIN);
            }
        }
    }
}
