//! Times and durations on the command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Minimum interval of queries to a server.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Parses a time of the command line, in milliseconds since 1970: a date, a date with a time of day, or a
/// length of time before now.
pub(in crate::cli) fn parse_time(text: &str) -> Result<i64, String> {
    parse(text.trim(), SystemTime::now()).ok_or_else(|| {
        format!(
            "{text:?} is neither a time, such as '2026-01-31 12:00:00' (UTC), nor how long ago, such as 2h"
        )
    })
}

/// Parses a pause between two queries of the command line.
pub(in crate::cli) fn parse_pause(text: &str) -> Result<Duration, String> {
    let pause = humantime::parse_duration(text.trim()).ok().filter(|pause| *pause >= PAUSE_MIN);
    pause.ok_or_else(|| format!("{text:?} is no time of at least 100ms, such as 500ms, 2s or 1m"))
}

/// Parses a length of time of the command line.
pub(in crate::cli) fn parse_length(text: &str) -> Result<Duration, String> {
    let length = humantime::parse_duration(text.trim());
    length.map_err(|_| format!("{text:?} is no length of time, such as 500ms, 20s, 2m or 1h 30m"))
}

fn parse(text: &str, now: SystemTime) -> Option<i64> {
    if let Ok(ago) = humantime::parse_duration(text) {
        return millis(now.checked_sub(ago)?);
    }
    let midnight = format!("{text} 00:00:00");
    let time = humantime::parse_rfc3339_weak(text).or_else(|_| humantime::parse_rfc3339_weak(&midnight));
    millis(time.ok()?)
}

/// Returns the present time, in milliseconds since 1970.
pub(in crate::cli) fn now_ms() -> i64 {
    millis(SystemTime::now()).unwrap_or_default()
}

fn millis(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

/// Formats a time as `2026-01-31T12:00:00Z`; a number that is no time of this era, as it is.
pub(in crate::cli) fn show(millis: i64) -> String {
    let time = u64::try_from(millis).ok().filter(|millis| *millis < 253_402_300_800_000);
    let time = time.and_then(|millis| UNIX_EPOCH.checked_add(Duration::from_millis(millis)));
    time.map_or_else(|| millis.to_string(), |time| humantime::format_rfc3339_seconds(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_how_long_ago() {
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (text, expected) in [
            ("2h", Some(1_799_992_800_000)),
            ("1h 30m", Some(1_799_994_600_000)),
            ("2026-01-31 12:00:00", Some(1_769_860_800_000)),
            ("2026-01-31T12:00:00Z", Some(1_769_860_800_000)),
            ("2026-01-31", Some(1_769_817_600_000)),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(text, now), expected, "{text}");
        }
    }

    #[test]
    fn a_pause_is_long_enough() {
        assert_eq!(parse_pause("500ms"), Ok(Duration::from_millis(500)));
        for text in ["0", "0s", "99ms", "abc", ""] {
            assert!(parse_pause(text).unwrap_err().contains("such as 500ms"), "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_is_refused_with_a_valid_one() {
        assert_eq!(parse_length("1h 30m"), Ok(Duration::from_secs(5_400)));
        for text in ["xyz", "5", ""] {
            assert!(parse_length(text).unwrap_err().contains("such as 500ms"), "{text}");
        }
    }

    #[test]
    fn any_number_is_shown() {
        let shown = [show(0), show(1_769_860_800_999), show(-1), show(i64::MAX)];
        assert_eq!(shown, ["1970-01-01T00:00:00Z", "2026-01-31T12:00:00Z", "-1", "9223372036854775807"]);
    }
}
