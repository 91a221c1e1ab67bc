//! Output of the relay to its operators: one shared state, metrics, logs and a live line on a terminal.
//!
//! ```text
//! relay loop ── Status::tick, up, down, enter ──▶ Status ──▶ probes, gauges, status line
//!            └─ Metrics::… (counters) ──────────▶ Metrics ─▶ /metrics
//!                                        both, and History ─▶ Overview ─▶ status page, commands
//! ```
//!
//! Gauges are not set by the loop: [`Metrics::observe`] reads them from the [`Status`] at each request, so
//! that the probes, the metrics and the line can never disagree.

mod age;
mod escape;
mod history;
mod log_queue;
mod logging;
mod metrics;
mod overview;
mod status;
mod status_line;

pub(crate) use age::Age;
pub(crate) use history::{History, SAMPLE_INTERVAL, SAMPLES_MAX};
#[cfg(feature = "demo")]
pub(crate) use logging::FILTER_VARIABLE;
pub(crate) use logging::{LogFormat, LogOptions, Logs, UnknownLogFormat};
pub(crate) use metrics::{
    Change, DeathCause, Peer, RowTally, SlotDanger, SlotReport, SpanLoss, TopicTally, TransactionEnd,
    UNCHANGED, WalStatus,
};
pub use metrics::{ConfigInfo, Metrics};
pub(crate) use overview::{
    DeadLetters, Lag, Level, NotSent, Overview, Part, Problem, Runway, SlotView, SnapshotView, TopicView,
    events_of_all, fix_names, state_in_words,
};
pub(crate) use status::Unpublished;
#[cfg(test)]
pub(crate) use status::WARNINGS_MAX;
pub(crate) use status::{
    CatalogLook, Component, Condition, Holder, NotReady, Progress, Readiness, Snapshot, TablesRead,
    UNSEEN_MAX,
};
pub use status::{Limits, Phase, Status};
pub(crate) use status_line::StatusLine;

/// Returns the command that lists the dead letters of this process.
pub(crate) fn dead_letters_command() -> String {
    crate::error::in_commands("outboxd dlq ls -c FILE")
}

/// Fix when Kafka does not acknowledge.
pub(crate) const UNACKNOWLEDGED_FIX: &str =
    "check that Kafka accepts records; until then the slot retains WAL on the server's disk";
