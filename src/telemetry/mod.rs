//! What the relay tells the people who run it: one shared state, metrics, logs and a live line on a terminal.
//!
//! ```text
//! relay loop ── Status::tick, up, down, enter ──▶ Status ──▶ probes, gauges, status line
//!            └─ Metrics::… (counters) ──────────▶ Metrics ─▶ /metrics
//! ```
//!
//! Gauges are not set by the loop: [`Metrics::observe`] takes them from the [`Status`] when somebody asks, so that the
//! probes, the metrics and the line can never disagree.

mod escape;
mod log_queue;
mod logging;
mod metrics;
mod status;
mod status_line;

pub use logging::{FILTER_VARIABLE, LogError, LogFormat, LogOptions, Logs, UnknownLogFormat};
pub use metrics::{
    Change, ConfigInfo, DeathCause, Metrics, NOT_SENT_LABELS_MAX, Peer, RowTally, SlotDanger, SlotReport,
    TOPIC_LABELS_MAX, TopicTally, TransactionEnd, WalStatus,
};
pub use status::{
    Component, Condition, Holder, Limits, NotReady, Phase, Progress, Readiness, Role, Snapshot, Status,
    WARNINGS_MAX,
};
pub use status_line::StatusLine;
