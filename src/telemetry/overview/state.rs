//! State of the relay as text.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::problems::Problem;
use crate::telemetry::status::{Component, Condition, Phase, Role, Snapshot};

/// Health of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    /// Healthy.
    Well,
    /// Working, with something for the operator to check.
    Watch,
    /// Not doing its work.
    Wrong,
}

impl Level {
    /// Returns the level in one word.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::Watch => "watch",
            Self::Wrong => "wrong",
        }
    }

    /// Returns a sign that needs no colour.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Well => "✓",
            Self::Watch => "!",
            Self::Wrong => "✗",
        }
    }
}

/// State of the relay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) level: Level,
    /// Phase as in the metrics: `streaming`.
    pub(crate) phase: String,
    /// `active` or `standby`.
    pub(crate) role: String,
    /// The same for a person: `waiting for Kafka`.
    pub(crate) words: String,
}

impl State {
    /// Returns whether another instance has the slot.
    pub(crate) fn is_standby(&self) -> bool {
        self.role == Role::Standby.name()
    }

    pub(super) fn new(state: &Snapshot, problems: &[Problem], now: Instant) -> Self {
        Self {
            level: problems.iter().map(|problem| problem.level).max().unwrap_or(Level::Well),
            phase: state.phase.name().to_owned(),
            role: state.readiness(now).role.name().to_owned(),
            words: words(state),
        }
    }
}

/// Returns the state for a person: `waiting for Kafka`.
pub(crate) fn words(state: &Snapshot) -> String {
    let plain = match &state.phase {
        Phase::StandingBy(holder) => return format!("standby: the slot belongs to {holder}"),
        Phase::Draining => "stopping, when Kafka has acknowledged what was sent",
        Phase::Paused => "paused",
        Phase::Stopped => "stopped",
        Phase::Connecting | Phase::Streaming => working(state),
    };
    plain.to_owned()
}

fn working(state: &Snapshot) -> &'static str {
    // The worst fact, whatever else the relay waits for.
    if state.is_slot_lost() {
        return "the slot is lost";
    }
    let is_down = |component| matches!(state.condition(component), Condition::Down { .. });
    if is_down(Component::Postgres) {
        return "waiting for PostgreSQL";
    }
    if is_down(Component::Kafka) {
        return "waiting for Kafka";
    }
    if is_down(Component::Registry) {
        return "waiting for the schema registry";
    }
    match state.phase {
        Phase::Streaming => "streaming",
        _ if state.tables_read.remaining > 0 => "sending a snapshot",
        _ => "connecting",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::status::{Holder, Limits, Status, TablesRead};
    use crate::telemetry::{SlotDanger, SlotReport};

    /// Returns the words for a relay that has connected, after `change`.
    fn told(change: impl FnOnce(&Status, Instant)) -> String {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        change(&status, now);
        words(&status.snapshot())
    }

    #[test]
    fn each_state_has_its_words() {
        let streaming = |status: &Status| status.enter(Phase::Streaming);
        assert_eq!(told(|_, _| ()), "connecting");
        assert_eq!(told(|status, _| streaming(status)), "streaming");
        let reading = TablesRead { tables: 2, remaining: 1, ..TablesRead::default() };
        assert_eq!(told(|status, now| status.read_tables(reading, now)), "sending a snapshot");
        for (component, expected) in [
            (Component::Postgres, "waiting for PostgreSQL"),
            (Component::Kafka, "waiting for Kafka"),
            (Component::Registry, "waiting for the schema registry"),
        ] {
            let down = |status: &Status, now| {
                streaming(status);
                status.down(component, "no answer", now);
            };
            assert_eq!(told(down), expected);
        }
        let lost = |status: &Status, now| {
            status.down(Component::Kafka, "no broker answers", now);
            let danger = SlotDanger::Lost;
            let report = SlotReport { retained_bytes: 1, safe_wal_bytes: None, wal_status: None, danger };
            status.slot(report, None);
        };
        assert_eq!(told(lost), "the slot is lost");
        let standby = Phase::StandingBy(Holder { pid: 7, application: "outboxd/orders".to_owned() });
        assert_eq!(
            told(|status, _| status.enter(standby)),
            "standby: the slot belongs to pid 7 (outboxd/orders)"
        );
        assert_eq!(told(|status, _| status.enter(Phase::Paused)), "paused");
    }
}
