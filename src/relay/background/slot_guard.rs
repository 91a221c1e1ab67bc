//! The decision which danger of the slot is logged, so that a slot at a limit does not flood the log.

use std::time::Duration;

use crate::postgres::SlotFacts;
use crate::relay::options::GuardOptions;
use crate::telemetry::{SlotDanger, SlotReport, WalStatus};

/// Consecutive checks that must find less danger before an improvement is reported: a slot at a limit must
/// not flood the log.
const CALM_LOOKS: u32 = 3;

/// Reports the slot's dangers: once when one gets worse, once when it is over.
#[derive(Debug)]
pub(in crate::relay) struct SlotGuard {
    options: GuardOptions,
    told: Level,
    /// Consecutive checks that found less than was reported, and the worst of them.
    calmer: (u32, Level),
}

/// Retained WAL, in steps that are worth a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Level {
    danger: SlotDanger,
    /// Number of times that `outboxd.slot.warn.bytes` was doubled.
    doublings: u32,
}

/// Change since the last log line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::relay) enum Change {
    /// Worse.
    Worse,
    /// Better, or over.
    Better,
}

impl SlotGuard {
    pub(in crate::relay) fn new(options: GuardOptions) -> Self {
        Self { options, told: Level::default(), calmer: (0, Level::default()) }
    }

    /// Evaluates the slot's facts, and returns the report and the change to log, if any.
    pub(in crate::relay) fn look(&mut self, facts: &SlotFacts) -> (SlotReport, Option<Change>) {
        let level = self.level(facts);
        let change = self.change(level);
        (report(facts, self.told.danger), change)
    }

    fn change(&mut self, level: Level) -> Option<Change> {
        if level > self.told {
            (self.told, self.calmer) = (level, (0, Level::default()));
            return Some(Change::Worse);
        }
        if level == self.told {
            self.calmer = (0, Level::default());
            return None;
        }
        self.calmer = (self.calmer.0.saturating_add(1), self.calmer.1.max(level));
        if self.calmer.0 < CALM_LOOKS {
            return None;
        }
        let before = self.told.danger;
        (self.told, self.calmer) = (self.calmer.1, (0, Level::default()));
        (self.told.danger < before).then_some(Change::Better)
    }

    fn level(&self, facts: &SlotFacts) -> Level {
        let retained = u64::try_from(facts.retained_bytes).unwrap_or_default();
        let doublings = self.options.warn_bytes.and_then(|most| retained.checked_div(most)?.checked_ilog2());
        let used = used_percent(facts).unwrap_or_default();
        let status = wal_status(facts);
        let danger = if facts.invalidation().is_some() {
            SlotDanger::Lost
        } else if status == Some(WalStatus::Unreserved) {
            SlotDanger::Unreserved
        } else if used >= self.options.alarm_percent {
            SlotDanger::Alarm
        } else if used >= self.options.warn_percent
            || doublings.is_some()
            || status == Some(WalStatus::Extended)
        {
            SlotDanger::Watch
        } else {
            SlotDanger::None
        };
        Level { danger, doublings: doublings.unwrap_or_default() }
    }
}

/// Returns what to do about it, by where the WAL is held back.
pub(in crate::relay) fn fix(
    facts: &SlotFacts,
    oldest_unacknowledged: Option<Duration>,
    is_kafka_down: bool,
) -> String {
    let limit = match facts.safe_wal_bytes {
        Some(_) => "; to gain time: ALTER SYSTEM SET max_slot_wal_keep_size = '…'; SELECT pg_reload_conf();",
        None => "; nothing limits it: the server stops when its disk is full",
    };
    if let Some(age) = oldest_unacknowledged.filter(|age| age.as_secs() > 0) {
        return format!(
            "Kafka is slow or unavailable: the oldest event has waited {} s for its acknowledgement. Check that the \
             brokers accept records{limit}",
            age.as_secs()
        );
    }
    if is_kafka_down {
        return format!("Kafka is away: nothing is confirmed until a broker answers{limit}");
    }
    if unconfirmed_bytes(facts) < facts.retained_bytes / 2 {
        return format!(
            "most of it is confirmed, and an old transaction holds it back: SELECT pid, xact_start, query FROM \
             pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start; and SELECT * FROM \
             pg_prepared_xacts{limit}"
        );
    }
    format!("outboxd reads more slowly than the server writes, or has much to catch up with{limit}")
}

pub(in crate::relay) fn unconfirmed_bytes(facts: &SlotFacts) -> i64 {
    let confirmed = facts.confirmed_flush_lsn.unwrap_or(facts.server_lsn);
    i64::try_from(facts.server_lsn.bytes_since(confirmed)).unwrap_or(i64::MAX)
}

fn report(facts: &SlotFacts, danger: SlotDanger) -> SlotReport {
    SlotReport {
        retained_bytes: u64::try_from(facts.retained_bytes).unwrap_or_default(),
        safe_wal_bytes: facts.safe_wal_bytes,
        wal_status: wal_status(facts),
        danger,
    }
}

fn wal_status(facts: &SlotFacts) -> Option<WalStatus> {
    facts.wal_status.as_deref().and_then(WalStatus::from_name)
}

/// Returns the part of the WAL that the slot may retain and does, in percent; `None` without a limit.
fn used_percent(facts: &SlotFacts) -> Option<u64> {
    let safe = u64::try_from(facts.safe_wal_bytes?).unwrap_or_default();
    let retained = u64::try_from(facts.retained_bytes).unwrap_or_default();
    retained.saturating_mul(100).checked_div(retained.saturating_add(safe))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Lsn;

    const MB: i64 = 1 << 20;

    fn facts(status: &str, retained: i64, safe: Option<i64>) -> SlotFacts {
        SlotFacts {
            plugin: Some("pgoutput".to_owned()),
            database: Some("orders".to_owned()),
            active_pid: Some(1),
            application: None,
            client: None,
            confirmed_flush_lsn: Some(Lsn::new(100)),
            restart_lsn: Some(Lsn::new(90)),
            wal_status: Some(status.to_owned()),
            safe_wal_bytes: safe,
            retained_bytes: retained,
            server_lsn: Lsn::new(200),
            invalidation_reason: None,
            inactive_since: None,
            two_phase: false,
            failover: None,
        }
    }

    fn guard() -> SlotGuard {
        let warn_bytes = Some(100 << 20);
        SlotGuard::new(GuardOptions {
            warn_bytes,
            warn_percent: 50,
            alarm_percent: 80,
            unacknowledged_max: Duration::from_secs(60),
        })
    }

    #[test]
    fn the_danger_is_the_worst_that_is_seen() {
        let mut reason = facts("lost", 0, None);
        reason.invalidation_reason = Some("idle_timeout".to_owned());
        let cases = [
            (facts("reserved", 99 * MB, None), SlotDanger::None),
            (facts("reserved", 100 * MB, None), SlotDanger::Watch),
            (facts("extended", MB, None), SlotDanger::Watch),
            (facts("reserved", 49 * MB, Some(51 * MB)), SlotDanger::None),
            (facts("reserved", 50 * MB, Some(50 * MB)), SlotDanger::Watch),
            (facts("extended", 80 * MB, Some(20 * MB)), SlotDanger::Alarm),
            (facts("unreserved", 100 * MB, Some(-MB)), SlotDanger::Unreserved),
            (facts("lost", 0, None), SlotDanger::Lost),
            (reason, SlotDanger::Lost),
        ];
        for (facts, danger) in cases {
            assert_eq!(guard().look(&facts).0.danger, danger, "{facts:?}");
        }
    }

    #[test]
    fn each_worsening_is_reported_once_and_the_end_when_it_lasts() {
        let mut guard = guard();
        let mut look = |status, megabytes, safe| guard.look(&facts(status, megabytes * MB, safe)).1;
        assert_eq!(look("reserved", 1, None), None);
        assert_eq!(look("extended", 1, None), Some(Change::Worse));
        assert_eq!(look("extended", 150, None), None);
        assert_eq!(look("extended", 200, None), Some(Change::Worse), "twice the limit");
        assert_eq!(look("extended", 399, None), None);
        assert_eq!(look("unreserved", 399, Some(-1)), Some(Change::Worse));
        // It swings around the limit.
        assert_eq!(look("extended", 10, None), None);
        assert_eq!(look("unreserved", 399, Some(-1)), None);
        assert_eq!([look("reserved", 1, None), look("extended", 1, None)], [None, None]);
        assert_eq!(look("reserved", 1, None), Some(Change::Better), "extended was the worst of three");
        assert_eq!([look("reserved", 1, None), look("reserved", 1, None)], [None, None]);
        assert_eq!(look("reserved", 1, None), Some(Change::Better));
        assert_eq!(look("extended", 1, None), Some(Change::Worse));
    }

    #[test]
    fn the_fix_is_that_of_the_cause() {
        let behind = facts("extended", 100, Some(1));
        assert!(
            fix(&behind, Some(Duration::from_secs(7)), false).starts_with("Kafka is slow or unavailable")
        );
        assert!(fix(&behind, None, false).contains("max_slot_wal_keep_size"));
        assert!(fix(&behind, None, true).starts_with("Kafka is away"));
        let old = facts("extended", 300, None);
        assert!(fix(&old, None, false).contains("pg_stat_activity"));
        assert!(fix(&old, None, false).contains("disk is full"));
    }
}
