//! Remaining time of the slot.

use serde::{Deserialize, Serialize};

use crate::telemetry::history::{History, WalRate, float, tenths};
use crate::telemetry::metrics::{SlotDanger, SlotReport};
use crate::telemetry::status::Snapshot;

const SECONDS_A_MINUTE: f64 = 60.0;
const SECONDS_AN_HOUR: f64 = 3600.0;
/// A runway below this many hours is urgent.
const URGENT_HOURS: f64 = 0.25;

/// The slot, and the WAL that it keeps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SlotView {
    pub(crate) received: String,
    pub(crate) confirmed: String,
    pub(crate) server: String,
    /// `None` while the server was not asked, as for the rest.
    pub(crate) retained_bytes: Option<u64>,
    /// `None` also when nothing limits it.
    pub(crate) safe_wal_bytes: Option<i64>,
    pub(crate) wal_status: Option<String>,
    pub(crate) danger: Option<String>,
    /// Rate of the server's WAL, over the time that is remembered.
    pub(crate) wal_bytes_per_second: Option<u64>,
    pub(crate) runway: Runway,
}

/// Remaining life of the slot if nothing were confirmed from now on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(into = "Form", from = "Form")]
pub(crate) enum Runway {
    /// The server was not asked about the slot.
    NotAsked,
    /// The rate is not known yet.
    Measuring,
    /// No limit except the disk.
    Disk,
    /// Next to nothing is written.
    Idle,
    /// Number of hours at the present rate: in tenths, and towards the end in ten-thousandths.
    Hours { hours: f64 },
    /// Over, or possibly at the next checkpoint.
    Over,
}

/// Form in JSON. An enum with a tag inside cannot be read where numbers keep all their digits.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Form {
    kind: Kind,
    /// Hours, only of `hours`.
    hours: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    NotAsked,
    Measuring,
    Disk,
    Idle,
    Hours,
    Over,
}

impl From<Runway> for Form {
    fn from(runway: Runway) -> Self {
        let (kind, hours) = match runway {
            Runway::NotAsked => (Kind::NotAsked, None),
            Runway::Measuring => (Kind::Measuring, None),
            Runway::Disk => (Kind::Disk, None),
            Runway::Idle => (Kind::Idle, None),
            Runway::Hours { hours } => (Kind::Hours, Some(hours)),
            Runway::Over => (Kind::Over, None),
        };
        Self { kind, hours }
    }
}

impl From<Form> for Runway {
    fn from(Form { kind, hours }: Form) -> Self {
        match kind {
            Kind::NotAsked => Self::NotAsked,
            Kind::Measuring => Self::Measuring,
            Kind::Disk => Self::Disk,
            Kind::Idle => Self::Idle,
            Kind::Hours => Self::Hours { hours: hours.unwrap_or_default() },
            Kind::Over => Self::Over,
        }
    }
}

impl Runway {
    /// Computes it from the slot's `safe_wal_size`, and the rate of the server's WAL.
    pub(crate) fn of(is_over: bool, safe_wal_bytes: Option<i64>, bytes_per_second: Option<u64>) -> Self {
        if is_over {
            return Self::Over;
        }
        let Some(safe) = safe_wal_bytes else { return Self::Disk };
        let Some(safe) = u64::try_from(safe).ok().filter(|safe| *safe > 0) else { return Self::Over };
        match bytes_per_second {
            None => Self::Measuring,
            Some(0) => Self::Idle,
            Some(rate) => Self::Hours { hours: rounded(float(safe) / float(rate) / SECONDS_AN_HOUR) },
        }
    }

    /// Returns true when there is little time to act, or none.
    pub(crate) fn is_urgent(self) -> bool {
        match self {
            Self::Over => true,
            Self::Hours { hours } => hours < URGENT_HOURS,
            Self::NotAsked | Self::Measuring | Self::Disk | Self::Idle => false,
        }
    }

    /// Describes the runway, and its meaning.
    pub(crate) fn words(self) -> (String, String) {
        let (words, meaning) = match self {
            Self::Hours { hours } => {
                let meaning =
                    "so long the slot lives at the present rate, if nothing were confirmed from now on";
                return (hours_in_words(hours), meaning.to_owned());
            }
            Self::NotAsked => ("unknown", "PostgreSQL was not asked about the slot yet"),
            Self::Measuring => ("unknown", "how fast PostgreSQL writes is being measured"),
            Self::Disk => (
                "unknown",
                "max_slot_wal_keep_size sets no limit: the slot lives until the server's disk is full",
            ),
            Self::Idle => ("no end", "PostgreSQL writes almost nothing"),
            Self::Over => ("over", "the slot is lost, or may be at the next checkpoint"),
        };
        (words.to_owned(), meaning.to_owned())
    }
}

/// Rounds hours. A tenth of an hour is too coarse for the last one.
fn rounded(hours: f64) -> f64 {
    if hours < 1.0 { (hours * 10_000.0).round() / 10_000.0 } else { tenths(hours) }
}

/// Returns hours in words. Days are hours too, so that they need no conversion. The last hour is rounded
/// down.
fn hours_in_words(hours: f64) -> String {
    let seconds = (hours * SECONDS_AN_HOUR).round();
    match hours {
        1000.0.. => "over 1,000 h".to_owned(),
        _ if seconds >= SECONDS_AN_HOUR => format!("{hours:.1} h"),
        _ if seconds >= SECONDS_A_MINUTE => format!("{:.0} min", (seconds / SECONDS_A_MINUTE).floor()),
        _ => format!("{seconds:.0} s"),
    }
}

impl SlotView {
    pub(super) fn new(state: &Snapshot, history: &History) -> Self {
        let (report, rate) = (state.slot_report, history.wal_rate().map(WalRate::whole));
        Self {
            received: state.progress.received.to_string(),
            confirmed: state.progress.confirmed.to_string(),
            server: state.progress.server.to_string(),
            retained_bytes: report.map(|report| report.retained_bytes),
            safe_wal_bytes: report.and_then(|report| report.safe_wal_bytes),
            wal_status: report.and_then(|report| report.wal_status).map(|status| status.name().to_owned()),
            danger: report.map(|report| report.danger.name().to_owned()),
            wal_bytes_per_second: rate,
            runway: runway(report, rate),
        }
    }
}

fn runway(report: Option<SlotReport>, rate: Option<u64>) -> Runway {
    let of =
        |report: SlotReport| Runway::of(report.danger >= SlotDanger::Unreserved, report.safe_wal_bytes, rate);
    report.map_or(Runway::NotAsked, of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runway_is_what_is_left_by_the_rate() {
        let slot = |safe_wal_bytes, danger| SlotReport {
            retained_bytes: 1,
            safe_wal_bytes,
            wal_status: None,
            danger,
        };
        let limited = Some(slot(Some(36_000_000), SlotDanger::None));
        let cases = [
            (None, Some(1), Runway::NotAsked),
            (limited, None, Runway::Measuring),
            (limited, Some(0), Runway::Idle),
            (limited, Some(1000), Runway::Hours { hours: 10.0 }),
            (Some(slot(None, SlotDanger::Watch)), Some(1000), Runway::Disk),
            (Some(slot(Some(-1), SlotDanger::Alarm)), Some(1000), Runway::Over),
            (Some(slot(Some(5), SlotDanger::Lost)), Some(1000), Runway::Over),
        ];
        for (report, rate, expected) in cases {
            assert_eq!(runway(report, rate), expected);
        }
    }

    #[test]
    fn the_last_hour_is_reported_in_minutes_and_seconds() {
        // At 1,000 bytes a second.
        let cases = [
            (1_000, "1 s"),
            (59_400, "59 s"),
            (60_000, "1 min"),
            (200_000, "3 min"),
            (3_599_000, "59 min"),
            (3_600_000, "1.0 h"),
            (9_000_000, "2.5 h"),
            (4_000_000_000, "over 1,000 h"),
        ];
        for (safe, words) in cases {
            assert_eq!(Runway::of(false, Some(safe), Some(1000)).words().0, words, "{safe}");
        }
    }
}
