//! The series of the registry.

use std::sync::atomic::AtomicU64;
use std::time::{Instant, SystemTime};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::known::Known;
use super::labels::{Change, DeathCause, Label, Peer, SpanLoss, TransactionEnd, WalStatus, fixed};
use super::not_sent::RowsNotSent;
use super::topics::PublishedByTopic;
use super::{ConfigInfo, SlotReport};
use crate::telemetry::status::{Phase, Progress, Snapshot, TablesRead};

/// Upper bounds of `outboxd_commit_to_ack_seconds`: from one network round trip to an outage.
const LATENCY_BUCKETS_SECONDS: [f64; 20] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0, 600.0, 1800.0,
];

/// The kinds of `outboxd_event_errors_total`.
const EVENT_ERRORS: [&str; 2] = ["route", "value"];

type Integer = Gauge<u64, AtomicU64>;
type Seconds = Gauge<f64, AtomicU64>;

/// A handle on each series that the registry shows.
#[derive(Debug)]
pub(super) struct Series {
    pub(super) changes: Family<Label, Counter>,
    pub(super) transactions: Counter,
    pub(super) skipped: Family<Label, Counter>,
    pub(super) event_errors: Family<Label, Counter>,
    pub(super) not_sent: RowsNotSent,
    pub(super) published: PublishedByTopic,
    pub(super) publish_errors: Family<Label, Counter>,
    pub(super) dead_letters: Family<Label, Counter>,
    pub(super) held_keys: Integer,
    pub(super) kafka_transactions: Family<Label, Counter>,
    pub(super) reconnects: Family<Label, Counter>,
    pub(super) commit_to_ack: Histogram,
    pub(super) slot_recoveries: Counter,
    pub(super) cleaned_rows: Counter,
    pub(super) cleanup_yielded: Counter,
    pub(super) cleanup_partitions: Counter,
    pub(super) notifications_lost: Counter,
    pub(super) notes_left_out: Counter,
    pub(super) spans_exported: Counter,
    pub(super) spans_lost: Family<Label, Counter>,
    source_lag: Seconds,
    last_event: Known<f64>,
    lsn: Family<Label, Integer>,
    lag_bytes: Integer,
    phase: Family<Label, Integer>,
    ready: Integer,
    warnings: Integer,
    settings_changed: Integer,
    postgres_connected: Integer,
    kafka_connected: Integer,
    inflight_events: Integer,
    inflight_bytes: Integer,
    slot_retained_bytes: Known<u64>,
    slot_safe_wal_bytes: Known<i64>,
    slot_status: Family<Label, Integer>,
    slot_danger: Integer,
    oldest_unacknowledged: Seconds,
    position_age: Seconds,
    snapshot_tables: Integer,
    snapshot_tables_remaining: Integer,
    snapshot_rows: Integer,
    snapshot_idle: Seconds,
}

impl Series {
    /// Shows the series in a registry, which may not be the only one.
    pub(super) fn register(&self, info: &ConfigInfo, registry: &mut Registry) {
        self.register_progress(registry);
        self.register_events(registry);
        self.register_servers(registry);
        self.register_snapshot(registry);
        register_info(info, registry);
    }

    pub(super) fn new() -> Self {
        let series = Self {
            changes: Family::default(),
            transactions: Counter::default(),
            skipped: Family::default(),
            event_errors: Family::default(),
            not_sent: RowsNotSent::default(),
            published: PublishedByTopic::default(),
            publish_errors: Family::default(),
            dead_letters: Family::default(),
            held_keys: Integer::default(),
            kafka_transactions: Family::default(),
            reconnects: Family::default(),
            commit_to_ack: Histogram::new(LATENCY_BUCKETS_SECONDS),
            slot_recoveries: Counter::default(),
            cleaned_rows: Counter::default(),
            cleanup_yielded: Counter::default(),
            cleanup_partitions: Counter::default(),
            notifications_lost: Counter::default(),
            notes_left_out: Counter::default(),
            spans_exported: Counter::default(),
            spans_lost: Family::default(),
            source_lag: Seconds::default(),
            last_event: Known::default(),
            lsn: Family::default(),
            lag_bytes: Integer::default(),
            phase: Family::default(),
            ready: Integer::default(),
            warnings: Integer::default(),
            settings_changed: Integer::default(),
            postgres_connected: Integer::default(),
            kafka_connected: Integer::default(),
            inflight_events: Integer::default(),
            inflight_bytes: Integer::default(),
            slot_retained_bytes: Known::default(),
            slot_safe_wal_bytes: Known::default(),
            slot_status: Family::default(),
            slot_danger: Integer::default(),
            oldest_unacknowledged: Seconds::default(),
            position_age: Seconds::default(),
            snapshot_tables: Integer::default(),
            snapshot_tables_remaining: Integer::default(),
            snapshot_rows: Integer::default(),
            snapshot_idle: Seconds::default(),
        };
        // A rate needs a first sample, so what can be counted is there before it happens.
        Change::ALL.iter().for_each(|change| drop(series.changes.get_or_create(&fixed("op", change.name()))));
        Peer::ALL.iter().for_each(|peer| drop(series.reconnects.get_or_create(&fixed("side", peer.name()))));
        DeathCause::ALL
            .iter()
            .for_each(|cause| drop(series.dead_letters.get_or_create(&fixed("reason", cause.name()))));
        SpanLoss::ALL
            .iter()
            .for_each(|loss| drop(series.spans_lost.get_or_create(&fixed("reason", loss.name()))));
        for kind in EVENT_ERRORS {
            drop(series.event_errors.get_or_create(&fixed("kind", kind)));
        }
        TransactionEnd::ALL
            .iter()
            .for_each(|end| drop(series.kafka_transactions.get_or_create(&fixed("result", end.name()))));
        series.show_wal_status(None);
        series.show_phase(Phase::Connecting.name());
        series.show_progress(&Progress::default(), SystemTime::UNIX_EPOCH);
        series
    }

    fn register_progress(&self, registry: &mut Registry) {
        registry.register("phase", "Current phase (1 = active)", self.phase.clone());
        registry.register("ready", "1 if /readyz reports that events flow", self.ready.clone());
        registry.register("warnings", "Number of warnings of /readyz", self.warnings.clone());
        registry.register(
            "settings_changed",
            "Number of settings whose files have other values than at the start",
            self.settings_changed.clone(),
        );
        registry.register(
            "notes_left_out",
            "Notes about tables that were not logged because there are too many",
            self.notes_left_out.clone(),
        );
        registry.register(
            "source_lag_seconds",
            "Seconds since the oldest commit with unacknowledged events",
            self.source_lag.clone(),
        );
        registry.register(
            "oldest_unacknowledged_seconds",
            "Seconds that the oldest event in flight has waited for its acknowledgement",
            self.oldest_unacknowledged.clone(),
        );
        registry.register(
            "position_age_seconds",
            "Seconds since a position was stored in Kafka while a later one waits; 0 if none waits",
            self.position_age.clone(),
        );
        registry.register(
            "commit_to_ack_seconds",
            "Seconds from a transaction's commit to the acknowledgement of its last event",
            self.commit_to_ack.clone(),
        );
        registry.register(
            "last_event_timestamp_seconds",
            "Unix time of the last received event",
            self.last_event.clone(),
        );
        registry.register("lsn", "WAL positions in bytes, by stage", self.lsn.clone());
        registry.register("lag_bytes", "Bytes of WAL that are not confirmed", self.lag_bytes.clone());
        registry.register("inflight_events", "Records in flight", self.inflight_events.clone());
        registry.register(
            "inflight_bytes",
            "Bytes of keys, values and headers in flight",
            self.inflight_bytes.clone(),
        );
    }

    fn register_events(&self, registry: &mut Registry) {
        registry.register("wal_changes", "Changes read from the WAL", self.changes.clone());
        registry.register("transactions", "Transactions whose commit was read", self.transactions.clone());
        registry.register("events_skipped", "Rows that produced no event, by reason", self.skipped.clone());
        registry.register(
            "rows_not_sent",
            "Rows of the stream that were not sent, by table and reason",
            self.not_sent.family.clone(),
        );
        registry.register(
            "event_errors",
            "Rows that could not be routed, converted or sent",
            self.event_errors.clone(),
        );
        registry.register(
            "events_published",
            "Events handed to the producer, by topic",
            self.published.family.clone(),
        );
        registry.register("publish_errors", "Failed deliveries", self.publish_errors.clone());
        registry.register(
            "dead_letters",
            "Events handed to the producer for the dead-letter topic",
            self.dead_letters.clone(),
        );
        registry.register(
            "dead_letter_keys_held",
            "Keys whose events become dead letters because an earlier event of the key did",
            self.held_keys.clone(),
        );
        registry.register(
            "kafka_transactions",
            "Committed and aborted Kafka transactions (exactly_once)",
            self.kafka_transactions.clone(),
        );
    }

    fn register_servers(&self, registry: &mut Registry) {
        registry.register(
            "postgres_connected",
            "1 if PostgreSQL is reachable",
            self.postgres_connected.clone(),
        );
        registry.register("kafka_connected", "1 if Kafka is reachable", self.kafka_connected.clone());
        registry.register("reconnects", "Reconnects, by side", self.reconnects.clone());
        registry.register(
            "slot_retained_bytes",
            "Bytes of WAL retained by the slot",
            self.slot_retained_bytes.clone(),
        );
        registry.register(
            "slot_safe_wal_bytes",
            "Bytes of WAL that can be written before the slot is in danger; absent without a limit",
            self.slot_safe_wal_bytes.clone(),
        );
        registry.register(
            "slot_status",
            "Current wal_status of the slot (1 = active)",
            self.slot_status.clone(),
        );
        registry.register(
            "slot_recoveries",
            "Lost slots that were created again with a snapshot",
            self.slot_recoveries.clone(),
        );
        registry.register(
            "cleanup_rows",
            "Sent rows that cleanup deleted (outboxd.cleanup.enable)",
            self.cleaned_rows.clone(),
        );
        registry.register(
            "cleanup_partitions",
            "Sent partitions that cleanup removed (outboxd.cleanup.partitions)",
            self.cleanup_partitions.clone(),
        );
        registry.register(
            "cleanup_yielded",
            "Batches and partitions that cleanup skipped because of a lock or the time limit",
            self.cleanup_yielded.clone(),
        );
        registry.register(
            "notifications_lost",
            "Notifications that the HTTP server did not accept (notification.enabled.channels=http)",
            self.notifications_lost.clone(),
        );
        let exported = self.spans_exported.clone();
        registry.register(
            "spans_exported",
            "Spans that the collector accepted (outboxd.tracing.enable)",
            exported,
        );
        registry.register("spans_lost", "Lost spans, by reason", self.spans_lost.clone());
        registry.register(
            "slot_danger",
            "Danger of losing the slot: 0 none, 1 watch, 2 alarm, 3 unreserved, 4 lost",
            self.slot_danger.clone(),
        );
    }

    fn register_snapshot(&self, registry: &mut Registry) {
        registry.register("snapshot_tables", "Tables of the last snapshot", self.snapshot_tables.clone());
        registry.register(
            "snapshot_tables_remaining",
            "Tables of the last snapshot that are not completely read",
            self.snapshot_tables_remaining.clone(),
        );
        registry.register("snapshot_rows", "Rows read by the last snapshot", self.snapshot_rows.clone());
        registry.register(
            "snapshot_idle_seconds",
            "Seconds since the last snapshot progress; 0 if no snapshot is running",
            self.snapshot_idle.clone(),
        );
    }

    pub(super) fn show_state(&self, state: &Snapshot, now: SystemTime) {
        self.show_phase(state.phase.name());
        let instant = Instant::now();
        self.ready.set(state.readiness(instant).ready.into());
        self.warnings.set(gauge(state.all_warnings(instant).count()));
        self.settings_changed.set(gauge(state.changed_settings.len()));
        self.postgres_connected.set(state.postgres.is_up().into());
        self.kafka_connected.set(state.kafka.is_up().into());
        self.show_progress(&state.progress, now);
        let TablesRead { tables, remaining, rows, .. } = state.tables_read;
        self.snapshot_tables.set(tables);
        self.snapshot_tables_remaining.set(remaining);
        self.snapshot_rows.set(rows);
        let idle = state.snapshot_waits.map(|since| instant.saturating_duration_since(since).as_secs_f64());
        self.snapshot_idle.set(idle.unwrap_or_default());
    }

    fn show_phase(&self, current: &str) {
        for name in Phase::NAMES {
            self.phase.get_or_create(&fixed("phase", name)).set((name == current).into());
        }
    }

    fn show_progress(&self, progress: &Progress, now: SystemTime) {
        self.source_lag.set(progress.lag(now).as_secs_f64());
        let waited = progress.oldest_unacknowledged.map(|since| since.elapsed().as_secs_f64());
        self.oldest_unacknowledged.set(waited.unwrap_or_default());
        self.position_age.set(progress.position_age(Instant::now()).as_secs_f64());
        let positions = [
            ("received", progress.received),
            ("flushed", progress.frontier),
            ("kept", progress.stored),
            ("confirmed", progress.confirmed),
            ("server", progress.server),
        ];
        for (kind, lsn) in positions {
            self.lsn.get_or_create(&fixed("kind", kind)).set(lsn.get());
        }
        self.lag_bytes.set(progress.lag_bytes());
        self.inflight_events.set(gauge(progress.inflight_events));
        self.inflight_bytes.set(gauge(progress.inflight_bytes));
        let last_event = progress.last_event.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        self.last_event.set(last_event.map(|since_epoch| since_epoch.as_secs_f64()));
    }

    pub(super) fn show_slot(&self, report: SlotReport) {
        self.slot_retained_bytes.set(Some(report.retained_bytes));
        self.slot_safe_wal_bytes.set(report.safe_wal_bytes);
        self.slot_danger.set(report.danger.rank());
        self.show_wal_status(report.wal_status);
    }

    fn show_wal_status(&self, current: Option<WalStatus>) {
        for status in WalStatus::ALL {
            let is_current = current == Some(status);
            self.slot_status.get_or_create(&fixed("status", status.name())).set(is_current.into());
        }
    }
}

fn register_info(info: &ConfigInfo, registry: &mut Registry) {
    registry.register(
        "inflight_events_limit",
        "Limit of records in flight",
        ConstGauge::new(gauge(info.inflight_events_max)),
    );
    registry.register(
        "inflight_bytes_limit",
        "Limit of bytes in flight",
        ConstGauge::new(gauge(info.inflight_bytes_max)),
    );
    let config = [
        ("topic_prefix", info.topic_prefix.clone()),
        ("database", info.database.clone()),
        ("slot", info.slot.clone()),
        ("publication", info.publication.clone()),
        ("tables", info.tables.clone()),
    ];
    registry.register("config", "Effective configuration", Info::new(config));
    registry.register("build", "Version of outboxd", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
}

fn gauge(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
