//! Dates and times of day, from the server's ISO text and into ISO 8601. Days count from 1970-01-01 in the proleptic
//! Gregorian calendar, 1 BC being the year 0.

pub(super) const MICROS_PER_SECOND: i64 = 1_000_000;
pub(super) const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
pub(super) const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// A timestamp: one of PostgreSQL's infinities, or microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// `infinity`
    Infinity,
    /// `-infinity`
    NegativeInfinity,
    /// Microseconds since 1970-01-01 00:00:00, in UTC when the type has a time zone.
    At(i64),
}

/// Reads a `timestamp`.
pub fn parse_timestamp(text: &str) -> Option<Moment> {
    match usual_timestamp(text) {
        Some((micros, [])) => Some(Moment::At(micros)),
        _ => parse_any_timestamp(text),
    }
}

fn parse_any_timestamp(text: &str) -> Option<Moment> {
    parse_moment(text, |clock| Some((micros_of_clock(clock)?, 0)))
}

/// Reads a `timestamptz`, whatever the session's time zone.
pub fn parse_timestamptz(text: &str) -> Option<Moment> {
    match usual_timestamp(text) {
        Some((micros, b"+00")) => Some(Moment::At(micros)),
        _ => parse_any_timestamptz(text),
    }
}

fn parse_any_timestamptz(text: &str) -> Option<Moment> {
    parse_moment(text, clock_and_offset)
}

/// Reads a timestamp in the usual form without a search for separators: four digits of a year, two of everything else.
/// Returns the microseconds since the epoch, and the text behind the fraction. `None` means only that the general
/// parser must read the text.
fn usual_timestamp(text: &str) -> Option<(i64, &[u8])> {
    let [y1, y2, y3, y4, b'-', o1, o2, b'-', d1, d2, b' ', h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] =
        text.as_bytes()
    else {
        return None;
    };
    let year = digits(&[*y1, *y2, *y3, *y4])?;
    let month = digits(&[*o1, *o2]).filter(|month| (1..=12).contains(month))?;
    let day = digits(&[*d1, *d2]).filter(|day| (1..=31).contains(day))?;
    let hours = digits(&[*h1, *h2])?;
    let minutes = digits(&[*m1, *m2]).filter(|minutes| *minutes <= 59)?;
    let seconds = digits(&[*s1, *s2]).filter(|seconds| *seconds <= 60)?;
    let (micros, rest) = match rest {
        [b'.', rest @ ..] => {
            let (fraction, rest) =
                rest.split_at(rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
            (micros_of_fraction(str::from_utf8(fraction).ok().filter(|digits| !digits.is_empty())?)?, rest)
        }
        rest => (0, rest),
    };
    let seconds = civil_days(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + seconds;
    Some((seconds * MICROS_PER_SECOND + micros, rest))
}

fn parse_moment(text: &str, clock: impl Fn(&str) -> Option<(i64, i64)>) -> Option<Moment> {
    match text {
        "infinity" => return Some(Moment::Infinity),
        "-infinity" => return Some(Moment::NegativeInfinity),
        _ => {}
    }
    let (text, before_christ) = before_christ(text);
    let (date, time) = text.split_once(' ').unwrap_or((text, "00:00:00"));
    let days = days_of_date(date, before_christ)?;
    let (micros, offset) = clock(time)?;
    days.checked_mul(MICROS_PER_DAY)?.checked_add(micros)?.checked_sub(offset).map(Moment::At)
}

/// Reads a `timetz`: microseconds of the local day, and the offset from UTC in microseconds.
pub(super) fn parse_timetz(text: &str) -> Option<(i64, i64)> {
    clock_and_offset(text).filter(|(micros, _)| *micros <= MICROS_PER_DAY)
}

/// Reads a finite `date`: days since the epoch.
pub(super) fn parse_date(text: &str) -> Option<i64> {
    let (date, before_christ) = before_christ(text);
    days_of_date(date, before_christ)
}

/// Reads `03:04:05.123456`, in microseconds. Hours may exceed a day's, as they do in intervals.
pub(super) fn micros_of_clock(text: &str) -> Option<i64> {
    let mut parts = text.splitn(3, ':');
    let hours: i64 = number(parts.next()?)?;
    let minutes: i64 = number(parts.next()?)?;
    let (seconds, fraction) = match parts.next() {
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
        None => ("0", ""),
    };
    if minutes > 59 {
        return None;
    }
    let seconds =
        hours.checked_mul(3600)?.checked_add(minutes * 60 + number(seconds).filter(|s| *s <= 60)?)?;
    seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(micros_of_fraction(fraction)?)
}

/// Writes `2024-01-02`.
pub(super) fn write_date(out: &mut String, days: i64) {
    let (year, month, day) = civil_date(days);
    match year {
        10_000.. => out.push('+'),
        0.. => {}
        _ => out.push('-'),
    }
    match year.unsigned_abs() {
        year @ 10_000.. => out.push_str(itoa::Buffer::new().format(year)),
        _ => {
            write_two(out, year.abs() / 100);
            write_two(out, year.abs() % 100);
        }
    }
    out.push('-');
    write_two(out, month);
    out.push('-');
    write_two(out, day);
}

/// Writes `03:04:05`, without the fraction.
pub(super) fn write_clock(out: &mut String, micros_of_day: i64) {
    let seconds = micros_of_day / MICROS_PER_SECOND;
    write_two(out, seconds / 3600);
    out.push(':');
    write_two(out, seconds / 60 % 60);
    out.push(':');
    write_two(out, seconds % 60);
}

/// Writes the two digits of a number below 100.
fn write_two(out: &mut String, number: i64) {
    out.push(digit(number / 10));
    out.push(digit(number));
}

/// Returns the last digit of a number that is not negative.
pub(in crate::column) fn digit(number: i64) -> char {
    u32::try_from(number % 10).ok().and_then(|digit| char::from_digit(digit, 10)).unwrap_or('0')
}

/// Writes a fraction of a second without trailing zeros, and nothing if it is zero.
pub(super) fn write_micros(out: &mut String, micros: impl Into<u64>) {
    let mut rest = micros.into();
    if rest == 0 {
        return;
    }
    out.push('.');
    let mut unit = MICROS_PER_SECOND.unsigned_abs() / 10;
    while rest > 0 && unit > 0 {
        out.extend(char::from_digit(u32::try_from(rest / unit % 10).unwrap_or_default(), 10));
        rest %= unit;
        unit /= 10;
    }
}

fn before_christ(text: &str) -> (&str, bool) {
    text.strip_suffix(" BC").map_or((text, false), |rest| (rest, true))
}

fn days_of_date(date: &str, before_christ: bool) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let year: i64 = number(parts.next()?).filter(|year| *year <= 9_999_999)?;
    let month = number(parts.next()?).filter(|month| (1..=12).contains(month))?;
    let day = number(parts.next()?).filter(|day| (1..=31).contains(day))?;
    Some(civil_days(if before_christ { 1 - year } else { year }, month, day))
}

/// Reads a time of day and its offset from UTC, both in microseconds: `+02`, `-03:30`, `+00:09:21`.
fn clock_and_offset(text: &str) -> Option<(i64, i64)> {
    let (clock, offset) = text.split_at_checked(text.rfind(['+', '-'])?)?;
    let (sign, offset) = match offset.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, offset.strip_prefix('+')?),
    };
    let offset = if offset.contains(':') {
        micros_of_clock(offset)?
    } else {
        number(offset)? * 3600 * MICROS_PER_SECOND
    };
    (offset < MICROS_PER_DAY).then_some((micros_of_clock(clock)?, sign * offset))
}

/// Reads a number of one to nine digits without a sign.
fn number(text: &str) -> Option<i64> {
    (1..=9).contains(&text.len()).then(|| digits(text.as_bytes())).flatten()
}

/// Reads a number without a sign. The caller limits its length, so that the number fits.
fn digits(text: &[u8]) -> Option<i64> {
    text.iter().try_fold(0, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit <= 9).then_some(number * 10 + i64::from(digit))
    })
}

fn micros_of_fraction(digits: &str) -> Option<i64> {
    if digits.is_empty() {
        return Some(0);
    }
    let scale = 6u32.checked_sub(u32::try_from(digits.len()).ok()?)?;
    Some(number(digits)? * 10i64.pow(scale))
}

/// Returns the days since 1970-01-01, by Howard Hinnant's `days_from_civil`: years begin in March, eras are 400 years.
pub const fn civil_days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Returns year, month and day: the inverse of [`civil_days`].
pub const fn civil_date(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn offsets_of_every_form_are_read() {
        let utc = parse_timestamptz("2024-01-02 03:04:05.5+00");
        for text in [
            "2024-01-02 05:04:05.5+02",
            "2024-01-01 23:34:05.5-03:30",
            "2024-01-02 03:13:26.5+00:09:21",
            "2024-01-02 03:04:05.500000+00",
        ] {
            assert_eq!(parse_timestamptz(text), utc, "{text}");
        }
        for wrong in
            ["", "2024", "2024-01-02", "2024-13-02 00:00:00+00", "2024-01-02 03:04:05", "2024-01-02 3+00"]
        {
            assert_eq!(parse_timestamptz(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn dates_that_are_written_are_read(days in -1_700_000i64..106_000_000) {
            let mut text = String::new();
            write_date(&mut text, days);
            let (year, rest) = text.trim_start_matches(['+', '-']).split_once('-').unwrap();
            let year: i64 = year.parse().unwrap();
            let postgres = if text.starts_with('-') {
                format!("{}-{rest} BC", year + 1)
            } else if year == 0 {
                format!("1-{rest} BC")
            } else {
                format!("{year}-{rest}")
            };
            prop_assert_eq!(parse_date(&postgres), Some(days));
        }

        #[test]
        fn the_short_way_reads_what_the_long_way_reads(
            text in r"[0-9]{4}-[01][0-9]-[0-3][0-9] [0-9]{2}:[0-6][0-9]:[0-6][0-9](\.[0-9]{0,7})?([+-][0-9]{2}(:[0-9]{2})?)?( BC)?",
        ) {
            prop_assert_eq!(parse_timestamp(&text), parse_any_timestamp(&text));
            prop_assert_eq!(parse_timestamptz(&text), parse_any_timestamptz(&text));
        }

        #[test]
        fn fractions_have_as_few_digits_as_it_takes(micros in 0u64..1_000_000) {
            let mut text = String::new();
            write_micros(&mut text, micros);
            let expected = format!(".{micros:06}");
            prop_assert_eq!(text.as_str(), if micros == 0 { "" } else { expected.trim_end_matches('0') });
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9:. +BC-]{0,40}") {
            let _results = (parse_timestamp(&text), parse_timestamptz(&text), parse_timetz(&text), parse_date(&text));
        }
    }
}
