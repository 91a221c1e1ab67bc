//! Time zones.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};

/// Seconds after which the calendar repeats, and with it the last rule of a zone.
const CYCLE: i64 = 146_097 * 86_400;

/// Seconds since 1970 that the calendar library supports (years -9750 to 9890).
const KNOWN: std::ops::Range<i64> = -370_000_000_000..250_000_000_000;

/// Time zone.
#[derive(Debug, Clone)]
pub(super) enum Zone {
    /// Constant offset, in seconds ahead of UTC.
    Fixed(i64),
    /// Zone whose offset changes with the season and by law.
    Named(TimeZone),
}

impl Zone {
    /// Parses `+02:00`, `UTC` or `Europe/Berlin`.
    pub(in crate::transform) fn parse(text: &str) -> Option<Self> {
        if let Some(seconds) = offset(text) {
            return Some(Self::Fixed(seconds));
        }
        let zone = TimeZoneDatabase::bundled().get(text).ok()?;
        // Java's names are case-sensitive.
        (zone.iana_name() == Some(text)).then_some(Self::Named(zone))
    }

    /// Returns the offset, in seconds ahead of UTC, at a local time in seconds since 1970. A local time that exists twice or
    /// never counts as before the change, as in Java.
    pub(super) fn at_local(&self, seconds: i64) -> i64 {
        let zone = match self {
            Self::Fixed(ahead) => return *ahead,
            Self::Named(zone) => zone,
        };
        let Some(local) = timestamp(seconds).map(|shown| Offset::UTC.to_datetime(shown)) else { return 0 };
        let offset = match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset,
            AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
        };
        offset.seconds().into()
    }

    /// Returns the offset, in seconds ahead of UTC, at a moment in seconds since 1970.
    pub(in crate::transform) fn at(&self, seconds: i64) -> i64 {
        match self {
            Self::Fixed(ahead) => *ahead,
            Self::Named(zone) => {
                timestamp(seconds).map_or(0, |moment| zone.to_offset(moment).seconds().into())
            }
        }
    }
}

fn timestamp(seconds: i64) -> Option<Timestamp> {
    let known = match seconds {
        late if late >= KNOWN.end => KNOWN.end - CYCLE + (late - KNOWN.end).rem_euclid(CYCLE),
        seconds => seconds.max(KNOWN.start),
    };
    Timestamp::from_second(known).ok()
}

/// Parses `+02:00`, `-09:30:15` or `UTC` into seconds ahead of UTC.
pub(in crate::transform) fn offset(text: &str) -> Option<i64> {
    if matches!(text, "UTC" | "GMT" | "Z") {
        return Some(0);
    }
    let (sign, clock) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+')?),
    };
    let parts: Option<Vec<i64>> = clock
        .split(':')
        .map(|part| if part.len() == 2 { part.parse().ok().filter(|number| *number < 60) } else { None })
        .collect();
    match *parts?.as_slice() {
        [hours, minutes] if hours <= 18 => Some(sign * (hours * 3600 + minutes * 60)),
        [hours, minutes, seconds] if hours <= 18 => Some(sign * (hours * 3600 + minutes * 60 + seconds)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_named_or_offsets() {
        for (text, is_zone) in [
            ("Europe/Berlin", true),
            ("America/Los_Angeles", true),
            ("+02:00", true),
            ("UTC", true),
            ("europe/berlin", false),
            ("Europe/Nowhere", false),
            ("+2", false),
            ("+19:00", false),
            ("", false),
        ] {
            assert_eq!(Zone::parse(text).is_some(), is_zone, "{text}");
        }
    }

    #[test]
    fn a_zone_changes_with_the_time_of_year() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        // 2024-01-01, 2024-07-01, the hour that is not there on 2024-03-31, and the one that is there twice on 2024-10-27.
        let local = [1_704_067_200, 1_719_792_000, 1_711_852_200, 1_729_996_200];
        assert_eq!(local.map(|seconds| berlin.at_local(seconds)), [3600, 7200, 3600, 7200]);
        assert_eq!([1_711_846_799, 1_711_846_800].map(|seconds| berlin.at(seconds)), [3600, 7200]);
        // The year 294276, and 4713 before Christ.
        assert_eq!(berlin.at_local(9_224_318_015_999), 3600);
        assert_eq!(berlin.at_local(-210_866_803_200), 3208);
        assert_eq!([i64::MIN, i64::MAX].map(|seconds| Zone::Fixed(5).at_local(seconds)), [5, 5]);
        for seconds in [i64::MIN, i64::MAX] {
            assert!((3000..8000).contains(&berlin.at(seconds)), "{seconds}");
        }
    }
}
