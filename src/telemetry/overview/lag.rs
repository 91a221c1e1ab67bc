//! The lag and its parts.

use std::time::{Duration, Instant, SystemTime};

use indicatif::HumanBytes;
use serde::{Deserialize, Serialize};

use crate::telemetry::history::{History, WalAge, tenths};
use crate::telemetry::status::{Condition, Progress, Snapshot};
use crate::wal::Lsn;

/// Lag, and where it is. The bytes are of WAL, also that of other tables; those of the three parts are all of
/// it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lag {
    /// Bytes not confirmed to PostgreSQL; `None` before the slot's position is known.
    pub(crate) bytes: Option<u64>,
    /// The age of the oldest commit that is not wholly in Kafka.
    pub(crate) seconds: f64,
    /// Seconds since PostgreSQL could last be queried: what it has written since is in none of these numbers.
    /// `None` while it can be queried.
    #[serde(default)]
    pub(crate) unseen_seconds: Option<f64>,
    /// Part not read yet.
    pub(crate) postgres: Part,
    /// Read, and neither on its way to Kafka nor confirmed.
    pub(crate) outboxd: Part,
    /// Part in flight to Kafka, not acknowledged.
    pub(crate) kafka: Part,
    /// Records on their way to Kafka, and their bytes.
    pub(crate) records: u64,
    pub(crate) record_bytes: u64,
}

/// One part of it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) bytes: u64,
    /// Age of the oldest of it; `None` when that is not known.
    pub(crate) seconds: Option<f64>,
    /// True if it is older than that, beyond what is remembered.
    pub(crate) at_least: bool,
}

impl Lag {
    pub(super) fn new(state: &Snapshot, history: &History, now: Instant, clock: SystemTime) -> Self {
        let progress = &state.progress;
        let postgres = unread(progress, history, now);
        let kafka = Part {
            bytes: if progress.inflight_events > 0 {
                progress.received.bytes_since(progress.frontier)
            } else {
                0
            },
            ..Part::aged(progress.oldest_unacknowledged.map(|since| now.saturating_duration_since(since)))
        };
        let known = progress.confirmed != Lsn::ZERO;
        let own_bytes = progress.lag_bytes().saturating_sub(postgres.bytes).saturating_sub(kafka.bytes);
        let own_age = progress.lag(clock).max(progress.position_age(now));
        let own_age = if own_bytes == 0 { Duration::ZERO } else { own_age };
        let behind = Duration::from_secs_f64(postgres.seconds.unwrap_or_default()).max(progress.lag(clock));
        Self {
            bytes: known.then(|| progress.lag_bytes()),
            seconds: seconds(behind),
            unseen_seconds: unseen(state, now).map(seconds),
            postgres,
            outboxd: Part { bytes: own_bytes, ..Part::aged(Some(own_age)) },
            kafka,
            records: u64::try_from(progress.inflight_events).unwrap_or(u64::MAX),
            record_bytes: u64::try_from(progress.inflight_bytes).unwrap_or(u64::MAX),
        }
    }
}

impl Lag {
    /// Returns the whole lag, for a person.
    pub(crate) fn whole(&self) -> String {
        match (self.bytes, self.unseen_seconds) {
            (None, _) => "not known yet".to_owned(),
            (Some(bytes), None) => HumanBytes(bytes).to_string(),
            (Some(bytes), Some(_)) => format!("{} or more", HumanBytes(bytes)),
        }
    }

    /// Returns the part that PostgreSQL has, while that is known.
    pub(crate) fn postgres_bytes(&self) -> Option<u64> {
        self.unseen_seconds.is_none().then_some(self.postgres.bytes)
    }
}

fn unseen(state: &Snapshot, now: Instant) -> Option<Duration> {
    match &state.postgres {
        Condition::Down { since, .. } => Some(now.saturating_duration_since(*since)),
        Condition::Unknown | Condition::Up => None,
    }
}

impl Part {
    /// Makes a part of this age; without an age it is 0.
    fn aged(age: Option<Duration>) -> Self {
        Self { seconds: Some(seconds(age.unwrap_or_default())), ..Self::default() }
    }
}

fn unread(progress: &Progress, history: &History, now: Instant) -> Part {
    let from = progress.received.max(progress.confirmed);
    if from == Lsn::ZERO {
        return Part::default();
    }
    let part = Part { bytes: progress.server.bytes_since(from), ..Part::default() };
    match history.age(from, progress.server, now) {
        Some(WalAge::Known(age)) => Part { seconds: Some(seconds(age)), ..part },
        Some(WalAge::AtLeast(age)) => Part { seconds: Some(seconds(age)), at_least: true, ..part },
        None => part,
    }
}

fn seconds(age: Duration) -> f64 {
    tenths(age.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::status::{Component, Limits, Status};
    use crate::wal::Lsn;

    fn lag(progress: Progress, now: Instant) -> Lag {
        let status = Status::new(Limits::default(), now);
        status.tick(progress, now);
        let clock = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        Lag::new(&status.snapshot(), &History::default(), now, clock)
    }

    fn at(confirmed: u64, frontier: u64, received: u64, server: u64) -> Progress {
        let [confirmed, frontier, received, server] = [confirmed, frontier, received, server].map(Lsn::new);
        Progress { confirmed, frontier, received, server, ..Progress::default() }
    }

    #[test]
    fn the_parts_are_the_whole() {
        let now = Instant::now();
        let cases = [
            // in flight; PostgreSQL, outboxd, Kafka
            (at(100, 100, 100, 100), 0, [0, 0, 0]),
            (at(100, 100, 100, 180), 0, [80, 0, 0]),
            (at(100, 120, 150, 180), 3, [30, 20, 30]),
            (at(100, 120, 150, 180), 0, [30, 50, 0]),
            (at(0, 0, 0, 180), 0, [0, 0, 0]),
        ];
        for (progress, inflight_events, expected) in cases {
            let lag = lag(Progress { inflight_events, ..progress }, now);
            assert_eq!([lag.postgres.bytes, lag.outboxd.bytes, lag.kafka.bytes], expected, "{progress:?}");
            assert_eq!(lag.bytes.unwrap_or_default(), expected.iter().sum::<u64>());
        }
    }

    #[test]
    fn what_postgresql_has_written_is_not_known_while_it_is_away() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.tick(at(100, 100, 100, 180), now);
        let lag = |seconds| {
            let now = now + Duration::from_secs(seconds);
            Lag::new(&status.snapshot(), &History::default(), now, SystemTime::UNIX_EPOCH)
        };
        assert_eq!((lag(0).whole().as_str(), lag(0).postgres_bytes()), ("80 B", Some(80)));
        status.down(Component::Postgres, "refused", now);
        let lag = lag(12);
        assert_eq!((lag.whole().as_str(), lag.postgres_bytes()), ("80 B or more", None));
        assert_eq!(lag.unseen_seconds, Some(12.0));
    }

    #[test]
    fn a_part_is_as_old_as_its_oldest() {
        let now = Instant::now();
        let progress = Progress {
            inflight_events: 1,
            oldest_commit: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(93)),
            oldest_unacknowledged: now.checked_sub(Duration::from_secs(6)),
            ..at(100, 120, 150, 180)
        };
        let lag = lag(progress, now);
        assert_eq!((lag.seconds, lag.kafka.seconds, lag.outboxd.seconds), (7.0, Some(6.0), Some(7.0)));
        assert_eq!(lag.postgres.seconds, None, "nothing was remembered");
    }
}
