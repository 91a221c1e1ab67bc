//! Progress of the relay.

use std::time::{Duration, Instant, SystemTime};

use crate::wal::Lsn;

/// Progress of the relay. The loop fills it at every turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The end of what was read from the slot.
    pub received: Lsn,
    /// Up to where every event is acknowledged by the brokers.
    pub frontier: Lsn,
    /// Up to where the relay's position is in Kafka, which nothing is confirmed beyond; zero when none is stored.
    pub stored: Lsn,
    /// Since when a later position waits for Kafka; `None` when none does.
    pub position_waits: Option<Instant>,
    /// LSN that was last reported to PostgreSQL as flushed, before which it may remove WAL.
    pub confirmed: Lsn,
    /// The end of the WAL on the server, from its last message.
    pub server: Lsn,
    /// Commit time of the oldest transaction that is not wholly acknowledged; `None` when there is none.
    pub oldest_commit: Option<SystemTime>,
    /// Time at which the oldest unacknowledged event was handed to the producer; `None` when nothing is in
    /// flight.
    pub oldest_unacknowledged: Option<Instant>,
    /// Since when records are on their way and Kafka has acknowledged none; `None` when nothing is in flight.
    pub kafka_silent_since: Option<Instant>,
    /// Time at which the last event was received, also by an earlier session.
    pub last_event: Option<SystemTime>,
    /// Records handed to the producer and not yet acknowledged.
    pub inflight_events: usize,
    /// Bytes of their keys, values and headers.
    pub inflight_bytes: usize,
    /// Events acknowledged since the start.
    pub events: u64,
}

/// Progress of a snapshot of tables: of the last one, when none is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TablesRead {
    /// Tables that are read (Debezium's `TotalTableCount`).
    pub tables: u64,
    /// Number of tables that are not read to their end (`RemainingTableCount`).
    pub remaining: u64,
    /// Rows that were handed over (`RowsScanned`).
    pub rows: u64,
    /// Pages of the tables, when that is known.
    pub pages: u64,
    /// Number of pages that are read.
    pub pages_read: u64,
    /// The snapshot is sent to its end (`SnapshotCompleted`), also when it had no table.
    pub is_complete: bool,
}

impl TablesRead {
    /// Returns the percentage of the tables that is read, by their pages, when that is known.
    #[must_use]
    pub fn percent(&self) -> Option<u64> {
        self.pages_read.saturating_mul(100).checked_div(self.pages)
    }
}

impl Progress {
    /// Resets what is in flight to nothing.
    pub(super) const fn release(&mut self) {
        (self.oldest_commit, self.oldest_unacknowledged, self.position_waits) = (None, None, None);
        self.kafka_silent_since = None;
        (self.inflight_events, self.inflight_bytes) = (0, 0);
    }

    /// Returns the time since Kafka accepted the last position, if a later one waits; zero when none does.
    #[must_use]
    pub fn position_age(&self, now: Instant) -> Duration {
        self.position_waits.map(|since| now.saturating_duration_since(since)).unwrap_or_default()
    }

    /// Returns the WAL bytes between what is confirmed and the end of the server's WAL. Zero before the first
    /// confirmation.
    #[must_use]
    pub fn lag_bytes(&self) -> u64 {
        if self.confirmed == Lsn::ZERO { 0 } else { self.server.bytes_since(self.confirmed) }
    }

    /// Returns the lag of the brokers behind the source: the age of the oldest commit that is not wholly
    /// acknowledged. Zero when there is none, and when the two clocks disagree the wrong way.
    #[must_use]
    pub fn lag(&self, now: SystemTime) -> Duration {
        self.oldest_commit.and_then(|commit| now.duration_since(commit).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_what_is_not_confirmed_yet() {
        let progress = Progress { confirmed: Lsn::new(100), server: Lsn::new(164), ..Progress::default() };
        assert_eq!(progress.lag_bytes(), 64);
        assert_eq!(Progress { server: Lsn::new(164), ..Progress::default() }.lag_bytes(), 0);
    }

    #[test]
    fn a_commit_in_the_future_is_no_lag() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(10);
        let behind = |seconds| Progress {
            oldest_commit: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            ..Progress::default()
        };
        assert_eq!(behind(7).lag(now), Duration::from_secs(3));
        assert_eq!(behind(11).lag(now), Duration::ZERO);
        assert_eq!(Progress::default().lag(now), Duration::ZERO);
    }
}
