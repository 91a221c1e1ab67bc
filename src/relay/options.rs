//! Options of the relay.

use std::path::PathBuf;
use std::time::Duration;

use crate::ack::Window;
use crate::cleanup::CleanupOptions;
use crate::signal::{NotificationOptions, SignalOptions};
use crate::source_offset::OffsetKey;
use crate::wal::Lsn;

/// The limits and the patience of the relay itself.
#[derive(Debug, Clone)]
pub struct Options {
    /// `outboxd.inflight.records.max` (3 500): records handed to the producer and not yet acknowledged.
    pub inflight_records_max: usize,
    /// `outboxd.inflight.bytes.max` (4 MiB): their key and value bytes. One larger record may always be in flight alone.
    pub inflight_bytes_max: usize,
    /// `outboxd.shutdown.timeout.ms` (25 s): how long a stop may drain.
    pub shutdown_timeout: Duration,
    /// `outboxd.startup.timeout.ms` (5 s): how long servers that do not answer at start are tried; `None` is for ever.
    pub startup_timeout: Option<Duration>,
    /// `errors.max.retries` (-1, unlimited): how often a broken connection is mended before the process gives up.
    pub retries_max: Option<u32>,
    /// `errors.tolerance=all`: a row that cannot be routed or converted is logged, counted and skipped.
    pub tolerate_rows: bool,
    /// Destination of such rows and of refused records, with `errors.tolerance=all` and
    /// `errors.deadletterqueue.topic.name`.
    pub dead_letters: Option<DeadLetterOptions>,
    /// `event.processing.failure.handling.mode` (fail): what a row does that cannot be read.
    pub unreadable_rows: ProcessingFailure,
    /// `skipped.operations`.
    pub skipped: SkippedOperations,
    /// Heartbeats, when `heartbeat.interval.ms` asks for them.
    pub heartbeat: Option<HeartbeatOptions>,
    /// Limits at which the slot and the age of records in flight are warned of.
    pub guard: GuardOptions,
    /// Debezium's offset storage; `None` when it is not configured.
    pub offsets: Option<OffsetOptions>,
    /// Storage of the relay's position.
    pub position: PositionOptions,
    /// `outboxd.delivery.guarantee` (at_least_once): what is done about repeats.
    pub guarantee: Guarantee,
    /// Configuration of transactions; `None` unless the guarantee is exactly-once.
    pub transactions: Option<TransactionOptions>,
    /// `outboxd.identity.headers` (false; with `tail_dedupe` true): whether records carry their event's
    /// position in the source.
    pub identity_headers: bool,
    /// Enabled signals.
    pub(crate) signals: SignalOptions,
    /// Channels of notifications of snapshots.
    pub(crate) notifications: NotificationOptions,
    /// Rows that are deleted.
    pub(crate) cleanup: CleanupOptions,
}

impl Options {
    /// Returns an empty window with the limits for records in flight.
    pub(super) const fn window(&self) -> Window {
        Window::new(self.inflight_records_max, self.inflight_bytes_max)
    }
}

/// Storage of the relay's position; by default none, so that only the configuration enables it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PositionOptions {
    /// `outboxd.position.topic` (`__outboxd-positions`); `None` when it is empty: no position is kept.
    pub topic: Option<String>,
    /// The record's key: connector name, topic prefix, database and slot.
    pub key: String,
    /// `outboxd.position.accept`: where a slot stands that is not where the relay left it, and that is gone on from.
    pub accept: Option<Lsn>,
    /// `offset.mismatch.strategy=trust_slot` or `trust_greater_lsn`: continue from a slot that was moved ahead.
    pub trusts_slot: bool,
}

/// `outboxd.delivery.guarantee`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Guarantee {
    /// Unconfirmed events are repeated.
    #[default]
    AtLeastOnce,
    /// The ends of the topics are read at a start, so that records in them are not repeated.
    TailDedupe,
    /// Kafka transactions, with a record in each that names its end.
    ExactlyOnce,
}

/// Configuration of [`Guarantee::ExactlyOnce`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionOptions {
    /// `outboxd.exactly.once.state.topic`, or `__outboxd-state.<topic.prefix>`.
    pub state_topic: String,
    /// `producer.override.transactional.id`; otherwise it is made of what follows.
    pub id: Option<String>,
    /// `topic.prefix`.
    pub topic_prefix: String,
    /// `producer.override.transaction.timeout.ms` (60 s).
    pub timeout: Duration,
    /// `transaction.boundary.interval.ms` (100 ms): for how long rows gather while the source has more of them.
    pub interval: Duration,
}

impl TransactionOptions {
    /// Returns the `transactional.id`: the configured one, or one that no other outbox has.
    #[must_use]
    pub fn transactional_id(&self, system_id: &str, slot: &str) -> String {
        match &self.id {
            Some(id) => id.clone(),
            None => format!("outboxd-{system_id}-{}-{slot}", self.topic_prefix),
        }
    }
}

/// Limits at which the slot and the age of records in flight are warned of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardOptions {
    /// `outboxd.slot.warn.bytes` (10 GiB): WAL that the slot holds back, and each doubling; 0 is never.
    pub warn_bytes: Option<u64>,
    /// `outboxd.slot.warn.percent` (50): how much of what the slot may hold back it holds back, when it is limited.
    pub warn_percent: u64,
    /// `outboxd.slot.alarm.percent` (80): the same, as an error.
    pub alarm_percent: u64,
    /// `outboxd.unacknowledged.age.max.ms` (60 s): how long an event may wait for its acknowledgement.
    pub unacknowledged_max: Duration,
}

/// The dead-letter topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterOptions {
    /// `errors.deadletterqueue.topic.name`
    pub topic: String,
    /// `errors.deadletterqueue.context.headers.enable` (false): whether dead letters carry their reason.
    pub context_headers: bool,
    /// `name`: the connector's.
    pub connector_name: String,
    /// `outboxd.deadletterqueue.follow.key` (false): whether later events of a dead letter's topic and key
    /// follow it.
    pub follow_key: bool,
    /// `outboxd.deadletterqueue.keys.max` (10 000): of how many keys, until the relay stops.
    pub keys_max: usize,
    /// `outboxd.cleanup.enable`: rows are deleted once they are sent, so no dead letter may lack its value.
    pub keeps_values: bool,
}

/// Records for those who watch them. The slot moves on without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatOptions {
    /// `heartbeat.interval.ms`, above 0.
    pub interval: Duration,
    /// `topic.heartbeat.name`, or `<topic.heartbeat.prefix>.<topic.prefix>`.
    pub topic: String,
    /// `heartbeat.action.query`: run in the database at each heartbeat.
    pub query: Option<String>,
}

/// `event.processing.failure.handling.mode`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessingFailure {
    /// Stops the relay.
    Fail,
    /// Skipped, with a warning.
    Warn,
    /// Skipped, and logged at level debug.
    Skip,
}

/// The source offset that is taken over, and handed back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetOptions {
    /// Storage of the offset.
    pub store: OffsetStore,
    /// Key, made of `name` and `topic.prefix`.
    pub key: OffsetKey,
    /// `offset.flush.interval.ms` (60 s): how often ours is stored.
    pub flush_interval: Duration,
    /// `offset.flush.timeout.ms` (5 s): how long that may take.
    pub flush_timeout: Duration,
}

/// `offset.storage`: one of Connect's backing stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OffsetStore {
    /// `offset.storage.topic`: `KafkaOffsetBackingStore`.
    Topic(String),
    /// `offset.storage.file.filename`: `FileOffsetBackingStore`.
    File(PathBuf),
}

/// Operations excluded by `skipped.operations`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedOperations {
    /// `c`: inserts; an outbox then sends nothing.
    pub create: bool,
    /// `u`.
    pub update: bool,
    /// `d`.
    pub delete: bool,
    /// `t`: the default.
    pub truncate: bool,
}
