//! Readiness of the relay.

use std::fmt;
use std::time::{Duration, Instant};

use super::{Component, Condition, Phase, Snapshot};
use crate::telemetry::metrics::SlotDanger;

/// A position is kept each second. After this long it is worth a warning that it is not.
const POSITION_AGE_MAX: Duration = Duration::from_secs(10);

/// Brokers acknowledge in milliseconds. After this long it is worth a word that none of them does: much later, after
/// `outboxd.unacknowledged.age.max.ms`, the relay is not ready.
const KAFKA_SILENCE_MAX: Duration = Duration::from_secs(5);

/// Readiness of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// No reason speaks against it.
    pub ready: bool,
    /// Role of this process: doing the work, or waiting to take over.
    pub role: Role,
    /// Reasons against it.
    pub reasons: Vec<NotReady>,
}

/// Role of this relay of two on one slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The relay that has the slot, or tries to get it.
    Active,
    /// Another has it.
    Standby,
}

/// Reasons why the relay is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReady {
    /// Neither streaming nor standing by.
    Phase(Phase),
    /// The loop has not turned for this long.
    Stalled(Duration),
    /// The oldest event has waited this long for its acknowledgement.
    Unacknowledged(Duration),
    /// A component has not been tried yet.
    Untried(Component),
    /// A component does not work.
    Down {
        /// Which.
        component: Component,
        /// Why.
        reason: String,
        /// Time since the failure.
        outage: Duration,
    },
}

impl Snapshot {
    /// Returns whether the loop turns. Independent of the servers: a broker that is down is no reason to
    /// restart the relay.
    #[must_use]
    pub fn is_alive(&self, now: Instant) -> bool {
        self.tick_age(now) <= self.limits.tick_age_max
    }

    /// Returns whether the relay does its work: it streams and is acknowledged in time, or stands by as it
    /// should.
    #[must_use]
    pub fn readiness(&self, now: Instant) -> Readiness {
        let reasons: Vec<NotReady> = [self.wrong_phase(), self.stalled(now), self.unacknowledged(now)]
            .into_iter()
            .flatten()
            .chain(self.failures(now))
            .collect();
        let role = if matches!(self.phase, Phase::StandingBy(_)) { Role::Standby } else { Role::Active };
        Readiness { ready: reasons.is_empty(), role, reasons }
    }

    /// Describes what follows when the relay's position is not stored; the log has the reason. Returns nothing while a server is down:
    /// nothing is confirmed then, and the server is named.
    #[must_use]
    pub(crate) fn late_position(&self, now: Instant) -> Option<String> {
        let age = self.progress.position_age(now);
        let is_consequence = [Component::Postgres, Component::Kafka]
            .into_iter()
            .any(|server| matches!(self.condition(server), Condition::Down { .. }));
        (age >= POSITION_AGE_MAX && !is_consequence).then(|| {
            format!(
                "outboxd could not store its position in Kafka for {} s: until it can, nothing more \
                 is confirmed to PostgreSQL, and the slot retains WAL",
                age.as_secs()
            )
        })
    }

    /// Returns true if the slot is lost or gone: nothing else that is wrong is worse.
    #[must_use]
    pub(crate) fn is_slot_lost(&self) -> bool {
        let is_lost = self.slot_report.is_some_and(|report| report.danger == SlotDanger::Lost);
        is_lost || matches!(self.condition(Component::Slot), Condition::Down { fix: Some(_), .. })
    }

    /// Returns for how long Kafka has acknowledged nothing of what is on its way, unless another line reports it or it is too short.
    #[must_use]
    pub(crate) fn kafka_silence(&self, now: Instant) -> Option<Duration> {
        let age = now.saturating_duration_since(self.progress.kafka_silent_since?);
        let is_told = !self.kafka.is_up() || self.unacknowledged(now).is_some();
        (age >= KAFKA_SILENCE_MAX && !is_told).then_some(age)
    }

    /// Returns the warnings to the operator although the relay works.
    pub(crate) fn all_warnings(&self, now: Instant) -> impl Iterator<Item = String> {
        self.warnings
            .iter()
            .cloned()
            .chain(self.catalog_warnings(now).map(|(what, fix)| format!("{what}; to fix: {fix}")))
            .chain(self.late_position(now))
    }

    /// Returns the settings that only a restart applies, and the fix.
    pub(crate) fn restart_request(&self) -> Option<(String, String)> {
        let keys = Some(&self.changed_settings).filter(|keys| !keys.is_empty())?.join(", ");
        Some((
            format!("the files of {keys} have other values than at the start"),
            "restart outboxd to apply them, or restore the files".to_owned(),
        ))
    }

    /// Returns the problems that polls of the catalog found, or had, each with its fix. Without a stream
    /// other problems are reported. A request for a restart is among them.
    pub(crate) fn catalog_warnings(&self, now: Instant) -> impl Iterator<Item = (String, String)> {
        let is_streaming = self.phase == Phase::Streaming;
        let unseen = if is_streaming { self.unseen.warnings(now) } else { Vec::new() };
        self.unpublished.warnings().into_iter().chain(unseen).chain(self.restart_request())
    }

    fn tick_age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.ticked)
    }

    fn wrong_phase(&self) -> Option<NotReady> {
        match self.phase {
            Phase::Streaming | Phase::StandingBy(_) => None,
            Phase::Connecting | Phase::Draining | Phase::Paused | Phase::Stopped => {
                Some(NotReady::Phase(self.phase.clone()))
            }
        }
    }

    fn stalled(&self, now: Instant) -> Option<NotReady> {
        (!self.is_alive(now)).then(|| NotReady::Stalled(self.tick_age(now)))
    }

    fn unacknowledged(&self, now: Instant) -> Option<NotReady> {
        let age = now.saturating_duration_since(self.progress.oldest_unacknowledged?);
        (age > self.limits.unacknowledged_age_max).then_some(NotReady::Unacknowledged(age))
    }

    /// Returns the failed components. A standby does not use the slot, and need not have tried Kafka; a pause
    /// uses no server. The registry is tried when it is needed.
    fn failures(&self, now: Instant) -> impl Iterator<Item = NotReady> {
        let standby = matches!(self.phase, Phase::StandingBy(_) | Phase::Paused);
        Component::ALL.into_iter().filter_map(move |component| match self.condition(component) {
            Condition::Up => None,
            Condition::Unknown if standby || component == Component::Registry => None,
            Condition::Down { .. } if standby && component == Component::Slot => None,
            Condition::Unknown => Some(NotReady::Untried(component)),
            Condition::Down { reason, since, .. } => Some(NotReady::Down {
                component,
                reason: reason.clone(),
                outage: now.saturating_duration_since(*since),
            }),
        })
    }
}

impl NotReady {
    /// Returns the component concerned; `None` when it is the relay itself.
    #[must_use]
    pub const fn component(&self) -> Option<Component> {
        match self {
            Self::Untried(component) | Self::Down { component, .. } => Some(*component),
            Self::Phase(_) | Self::Stalled(_) | Self::Unacknowledged(_) => None,
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase(phase) => write!(f, "the relay is {phase}"),
            Self::Stalled(age) => write!(f, "the loop has not turned for {} s", age.as_secs()),
            Self::Unacknowledged(age) => {
                write!(f, "the oldest event has waited {} s for its acknowledgement", age.as_secs())
            }
            Self::Untried(component) => write!(f, "{component} has not been tried yet"),
            Self::Down { component, reason, outage } => {
                write!(f, "{component} has been down for {} s: {reason}", outage.as_secs())
            }
        }
    }
}

impl Role {
    /// Returns the role in a probe's body.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Standby => "standby",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Holder, Limits, Progress, Status};
    use super::*;

    /// Returns the reasons after a healthy, streaming relay was changed, `seconds` later.
    fn reasons(seconds: u64, change: impl FnOnce(&Status, Instant)) -> Vec<String> {
        let start = Instant::now();
        let status = Status::streaming(start);
        change(&status, start);
        let readiness = status.snapshot().readiness(start + Duration::from_secs(seconds));
        assert_eq!(readiness.ready, readiness.reasons.is_empty());
        readiness.reasons.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_relay_that_streams_is_ready() {
        assert_eq!(reasons(0, |_, _| ()), Vec::<String>::new());
    }

    #[test]
    fn every_hold_has_its_reason() {
        assert_eq!(reasons(31, |_, _| ()), ["the loop has not turned for 31 s"]);
        assert_eq!(reasons(0, |status, _| status.enter(Phase::Draining)), ["the relay is draining"]);
        assert_eq!(
            reasons(3, |status, now| status.down(Component::Kafka, "no broker answers", now)),
            ["kafka has been down for 3 s: no broker answers"]
        );
        let waiting = |status: &Status, now: Instant| {
            status.tick(
                Progress { oldest_unacknowledged: Some(now), ..Progress::default() },
                now + Duration::from_secs(61),
            );
        };
        assert_eq!(reasons(60, waiting), Vec::<String>::new());
        assert_eq!(reasons(61, waiting), ["the oldest event has waited 61 s for its acknowledgement"]);
    }

    #[test]
    fn a_changed_file_asks_for_a_restart_and_is_no_reason_not_to_be_ready() {
        let now = Instant::now();
        let status = Status::streaming(now);
        status.changed_settings(vec!["a".to_owned(), "b.c".to_owned()]);
        let warnings: Vec<_> = status.snapshot().all_warnings(now).collect();
        let expected = "the files of a, b.c have other values than at the start; to fix: restart outboxd to apply them, or restore the files";
        assert_eq!(warnings, [expected]);
        assert!(status.snapshot().readiness(now).ready);
        status.changed_settings(Vec::new());
        assert_eq!(status.snapshot().all_warnings(now).count(), 0);
    }

    #[test]
    fn a_new_relay_is_alive_and_not_ready() {
        let now = Instant::now();
        let state = Status::new(Limits::default(), now).snapshot();
        assert!(state.is_alive(now) && !state.started);
        let expected = [
            NotReady::Phase(Phase::Connecting),
            NotReady::Untried(Component::Postgres),
            NotReady::Untried(Component::Slot),
            NotReady::Untried(Component::Kafka),
        ];
        assert_eq!(state.readiness(now).reasons, expected);
    }

    #[test]
    fn a_pause_alone_keeps_a_paused_relay_from_being_ready() {
        let paused = |status: &Status, now: Instant| {
            status.down(Component::Slot, "it was moved", now);
            let in_flight =
                Progress { oldest_unacknowledged: Some(now), inflight_events: 1, ..Progress::default() };
            status.tick(in_flight, now + Duration::from_secs(61));
            status.enter(Phase::Paused);
            assert_eq!(status.snapshot().progress, Progress::default());
            assert!(!status.snapshot().postgres.is_up());
        };
        assert_eq!(reasons(61, paused), ["the relay is paused"]);
    }

    #[test]
    fn a_standby_is_ready_by_design() {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        status.up(Component::Postgres, now);
        status.down(Component::Slot, "active for pid 42", now);
        status.enter(Phase::StandingBy(Holder { pid: 42, application: "outboxd".into() }));
        let state = status.snapshot();
        assert_eq!(state.readiness(now), Readiness { ready: true, role: Role::Standby, reasons: Vec::new() });
        assert!(state.started);
    }
}
