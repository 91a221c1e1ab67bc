//! The state of the relay as others see it.

mod condition;
mod progress;
mod readiness;
mod unpublished;
mod unseen;

use std::fmt;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::metrics::SlotReport;
use crate::error::{Diagnose, chain};
pub(crate) use condition::{Component, Condition};
pub(crate) use progress::{Progress, TablesRead};
pub(crate) use readiness::{NotReady, Readiness, Role};
pub(crate) use unpublished::Unpublished;
use unseen::Unseen;
pub(crate) use unseen::{CatalogLook, UNSEEN_MAX};

/// Phase of the relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Reaching PostgreSQL and Kafka, or reaching them again.
    Connecting,
    /// Another process holds the slot; we wait for it, by design.
    StandingBy(Holder),
    /// Reading from the slot.
    Streaming,
    /// The session is to end; waiting for what is in flight.
    Draining,
    /// Paused by a command: nothing is in flight, and nothing is open at PostgreSQL.
    Paused,
    /// Ended.
    Stopped,
}

/// Other holder of the slot, from `pg_stat_replication`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// `pg_replication_slots.active_pid`.
    pub pid: i32,
    /// The holder's `application_name`; empty when it gave none or may not be seen.
    pub application: String,
}

/// Limits of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// `outboxd.unacknowledged.age.max.ms` (60 s): how old the oldest unacknowledged event may get while we are still
    /// ready.
    pub unacknowledged_age_max: Duration,
    /// Longest time without a turn of the loop for which the relay still counts as alive (30 s).
    pub tick_age_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { unacknowledged_age_max: Duration::from_secs(60), tick_age_max: Duration::from_secs(30) }
    }
}

/// Most warnings that are stored.
pub(crate) const WARNINGS_MAX: usize = 32;

/// The shared state. Clones are handles on the same state.
#[derive(Debug, Clone)]
pub struct Status(watch::Sender<Snapshot>);

/// The state at one moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Phase of the relay.
    pub phase: Phase,
    /// True if it has streamed or stood by once; never goes back.
    pub started: bool,
    /// The connections to PostgreSQL.
    pub postgres: Condition,
    /// The replication slot.
    pub slot: Condition,
    /// The brokers.
    pub kafka: Condition,
    /// The schema registry; `Unknown` until it is needed.
    pub registry: Condition,
    /// Last facts of the slot; `None` before the first time.
    pub slot_report: Option<SlotReport>,
    /// Fix of the slot's danger; `None` when there is none.
    pub slot_fix: Option<String>,
    /// Tables of a standby that the relay with the slot does not capture.
    pub holder_lacks: Vec<String>,
    /// Captured tables that have come since the start and that the publication has not got.
    pub unpublished: Unpublished,
    /// Failed polls of the catalog.
    pub unseen: Unseen,
    /// Keys whose files have other values than at the start.
    pub changed_settings: Vec<String>,
    /// Progress of the relay.
    pub progress: Progress,
    /// Progress of the snapshot, or of the last one.
    pub tables_read: TablesRead,
    /// Time since which the snapshot has not progressed; `None` while none is running.
    pub snapshot_waits: Option<Instant>,
    /// The last turn of the loop.
    pub ticked: Instant,
    /// Limits of the probes.
    pub limits: Limits,
    /// Warnings to the operator although the relay works, in the order in which they were found.
    pub warnings: Vec<String>,
}

impl Status {
    /// Creates the state of a relay that has just been started.
    #[must_use]
    pub fn new(limits: Limits, now: Instant) -> Self {
        Self(watch::Sender::new(Snapshot {
            phase: Phase::Connecting,
            started: false,
            postgres: Condition::Unknown,
            slot: Condition::Unknown,
            kafka: Condition::Unknown,
            registry: Condition::Unknown,
            slot_report: None,
            slot_fix: None,
            holder_lacks: Vec::new(),
            unpublished: Unpublished::default(),
            unseen: Unseen::default(),
            changed_settings: Vec::new(),
            progress: Progress::default(),
            tables_read: TablesRead::default(),
            snapshot_waits: None,
            ticked: now,
            limits,
            warnings: Vec::new(),
        }))
    }

    /// Creates the state of a relay that streams, and whose servers all respond.
    #[cfg(test)]
    pub(crate) fn streaming(now: Instant) -> Self {
        let status = Self::new(Limits::default(), now);
        let needed = [Component::Postgres, Component::Slot, Component::Kafka];
        needed.into_iter().for_each(|component| status.up(component, now));
        status.enter(Phase::Streaming);
        status
    }

    /// Enters a phase. A change is logged.
    pub fn enter(&self, phase: Phase) {
        self.0.send_modify(|state| {
            if state.phase != phase {
                tracing::info!(from = %state.phase, to = %phase, "phase changed");
            }
            state.started |= matches!(phase, Phase::Streaming | Phase::StandingBy(_));
            if phase == Phase::Paused {
                state.release();
            }
            if matches!(phase, Phase::StandingBy(_)) {
                state.progress.position_waits = None;
            } else {
                state.holder_lacks.clear();
            }
            state.phase = phase;
        });
    }

    /// Records that a component works. Logged when it did not before.
    pub fn up(&self, component: Component, now: Instant) {
        self.0.send_modify(|state| state.condition_mut(component).recover(component, now));
    }

    /// Records that a component does not work, and why. May be called at every attempt: it is logged when the
    /// component goes down and every 30 s from then on.
    pub fn down(&self, component: Component, reason: impl Into<String>, now: Instant) {
        self.fail(component, reason.into(), None, now);
    }

    /// Does the same for an error, which also has its fix.
    pub fn down_by(&self, component: Component, error: &dyn Diagnose, now: Instant) {
        self.fail(component, chain(error), error.fix(), now);
    }

    fn fail(&self, component: Component, reason: String, fix: Option<String>, now: Instant) {
        self.0.send_modify(|state| state.condition_mut(component).fail(component, reason, fix, now));
    }

    /// Stores the server's facts of the slot, and the fix when it is in danger.
    pub fn slot(&self, report: SlotReport, fix: Option<String>) {
        self.0.send_modify(|state| (state.slot_report, state.slot_fix) = (Some(report), fix));
    }

    /// Stores the tables that the relay with the slot does not capture, and logs them.
    pub fn holder_lacks(&self, tables: Vec<String>) {
        self.0.send_if_modified(|state| {
            let is_new = state.holder_lacks != tables;
            if is_new && !tables.is_empty() {
                tracing::warn!(
                    tables = tables.join(", "),
                    "the outboxd that reads the slot does not capture these tables: it skips their rows"
                );
            }
            state.holder_lacks = tables;
            is_new
        });
    }

    /// Stores the captured tables that are new and not sent, and logs them.
    pub fn unpublished(&self, unpublished: Unpublished) {
        self.0.send_if_modified(|state| {
            let is_new = state.unpublished != unpublished;
            if is_new {
                unpublished.warnings().iter().for_each(|(what, fix)| tracing::warn!(fix, "{what}"));
            }
            state.unpublished = unpublished;
            is_new
        });
    }

    /// Stores the keys whose files have other values than at the start, and logs them.
    pub(crate) fn changed_settings(&self, keys: Vec<String>) {
        self.0.send_if_modified(|state| {
            let is_new = state.changed_settings != keys;
            state.changed_settings = keys;
            if let Some((what, fix)) = state.restart_request().filter(|_| is_new) {
                tracing::warn!(fix, "{what}");
            }
            is_new
        });
    }

    /// Records that a poll of the catalog has succeeded, or begins.
    pub(crate) fn seen(&self, look: CatalogLook, now: Instant) {
        self.0.send_modify(|state| state.unseen.seen(look, now));
    }

    /// Records that a poll of the catalog has failed, or takes long.
    pub(crate) fn not_seen(&self, look: CatalogLook, why: &str, now: Instant) {
        self.0.send_modify(|state| state.unseen.not_seen(look, why, now));
    }

    /// Stores a warning for as long as the process lives. Returns true when it is new. Beyond `WARNINGS_MAX`
    /// none is stored.
    pub fn warn(&self, warning: String) -> bool {
        self.0.send_if_modified(|state| {
            let is_new = state.warnings.len() < WARNINGS_MAX && !state.warnings.contains(&warning);
            if is_new {
                state.warnings.push(warning);
            }
            is_new
        })
    }

    /// Records a turn of the loop that streams, with its progress. A new session has had no event, and the
    /// process may have.
    pub fn tick(&self, progress: Progress, now: Instant) {
        self.0.send_modify(|state| {
            let last_event = progress.last_event.or(state.progress.last_event);
            state.progress = Progress { last_event, ..progress };
            state.ticked = now;
        });
    }

    /// Records the progress of a snapshot.
    pub fn read_tables(&self, read: TablesRead, now: Instant) {
        self.0.send_modify(|state| {
            let goes_on = state.tables_read != read || state.snapshot_waits.is_none();
            if read.remaining == 0 {
                state.snapshot_waits = None;
            } else if goes_on {
                state.snapshot_waits = Some(now);
            }
            state.tables_read = read;
        });
    }

    /// Records a turn of a loop that has nothing to report: it connects, stands by or waits to try again.
    pub fn tick_idle(&self, now: Instant) {
        self.0.send_modify(|state| state.ticked = now);
    }

    /// Returns the present state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.0.borrow().clone()
    }

    /// Wakes its holder at every change.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Snapshot> {
        self.0.subscribe()
    }
}

impl Snapshot {
    /// Returns the condition of a component.
    #[must_use]
    pub const fn condition(&self, component: Component) -> &Condition {
        match component {
            Component::Postgres => &self.postgres,
            Component::Slot => &self.slot,
            Component::Kafka => &self.kafka,
            Component::Registry => &self.registry,
        }
    }

    /// Resets the conditions: PostgreSQL is not queried any more, and nothing is in flight to Kafka.
    fn release(&mut self) {
        (self.postgres, self.slot) = (Condition::Unknown, Condition::Unknown);
        (self.slot_report, self.slot_fix, self.snapshot_waits) = (None, None, None);
        self.progress.release();
    }

    fn condition_mut(&mut self, component: Component) -> &mut Condition {
        match component {
            Component::Postgres => &mut self.postgres,
            Component::Slot => &mut self.slot,
            Component::Kafka => &mut self.kafka,
            Component::Registry => &mut self.registry,
        }
    }
}

impl Phase {
    /// Every name, in the order in which a relay comes through them.
    pub const NAMES: [&str; 6] = ["connecting", "standing by", "streaming", "draining", "paused", "stopped"];

    /// Returns the phase as one lower-case word or two.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::StandingBy(_) => "standing by",
            Self::Streaming => "streaming",
            Self::Draining => "draining",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {}", self.pid)?;
        if self.application.is_empty() { Ok(()) } else { write!(f, " ({})", self.application) }
    }
}
