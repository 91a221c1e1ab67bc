//! The Prometheus series.

mod classic;
mod debezium;
mod info;
mod known;
mod labels;
mod not_sent;
mod process;
mod series;
mod topics;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

pub use info::ConfigInfo;
pub(crate) use labels::{Change, DeathCause, Peer, SlotDanger, SpanLoss, TransactionEnd, WalStatus};
pub(crate) use not_sent::{RowTally, UNCHANGED};
pub(crate) use topics::{TopicCount, TopicTally};

use super::status::Snapshot;
use debezium::DebeziumNames;
use labels::{fixed, owned};
use series::Series;
use topics::PublishedByTopic;

/// Row of the slot in `pg_replication_slots`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotReport {
    /// WAL bytes that the slot keeps on the server's disk.
    pub retained_bytes: u64,
    /// `safe_wal_size`: how many more bytes may be written before the slot is in danger; `None` when nothing limits
    /// it. Negative when it is in danger already.
    pub safe_wal_bytes: Option<i64>,
    /// `wal_status`; `None` when the slot reserves no WAL.
    pub wal_status: Option<WalStatus>,
    /// Danger that results from it.
    pub danger: SlotDanger,
}

/// The counters and gauges. Clones are handles on the same series.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    info: ConfigInfo,
    series: Series,
    debezium: Option<DebeziumNames>,
    registry: Registry,
}

impl Metrics {
    /// Creates the series of a relay with this configuration, all at zero.
    #[must_use]
    pub fn new(info: &ConfigInfo) -> Self {
        let mut registry = Registry::default();
        let series = Series::new();
        series.register(info, registry.sub_registry_with_prefix("outboxd"));
        if info.former_names {
            series.register(info, registry.sub_registry_with_prefix("relay"));
        }
        registry.register_collector(Box::new(process::ProcessCollector));
        let debezium = info.debezium_names.then(|| DebeziumNames::register(info, &mut registry));
        Self(Arc::new(Inner { info: info.clone(), series, debezium, registry }))
    }

    /// Counts changes read from the WAL, whether they make events or not.
    pub fn changes(&self, change: Change, count: u64) {
        self.series().changes.get_or_create(&fixed("op", change.name())).inc_by(count);
    }

    /// Counts a note about a table that is not logged: there are too many.
    pub fn count_dropped_note(&self) {
        self.series().notes_left_out.inc();
    }

    /// Counts transactions whose commit was read.
    pub fn transactions(&self, count: u64) {
        self.series().transactions.inc_by(count);
    }

    /// Counts rows that made no event, by a `reason` from a fixed set.
    pub fn skipped(&self, reason: &'static str, count: u64) {
        self.series().skipped.get_or_create(&fixed("reason", reason)).inc_by(count);
    }

    /// Counts the rows of `table` that are not sent for this `reason`, one from a fixed set.
    #[must_use]
    pub fn rows_not_sent(&self, table: &str, reason: &'static str) -> RowTally {
        self.series().not_sent.tally(table, reason)
    }

    /// Counts a row that could not be routed, converted or sent, by a `kind` from a fixed set.
    pub fn event_error(&self, kind: &'static str) {
        self.series().event_errors.get_or_create(&fixed("kind", kind)).inc();
    }

    /// Counts a delivery that failed, by librdkafka's error code.
    pub fn publish_error(&self, code: &str) {
        self.series().publish_errors.get_or_create(&owned("code", code)).inc();
    }

    /// Counts an event that went to the dead-letter topic.
    pub fn dead_letter(&self, cause: DeathCause) {
        self.series().dead_letters.get_or_create(&fixed("reason", cause.name())).inc();
    }

    /// Shows the number of keys whose events become dead letters, because one of theirs has.
    pub fn keys_held(&self, count: usize) {
        self.series().held_keys.set(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Counts a Kafka transaction that has ended.
    pub fn kafka_transaction(&self, end: TransactionEnd) {
        self.series().kafka_transactions.get_or_create(&fixed("result", end.name())).inc();
    }

    /// Counts a connection that was lost and made again.
    pub fn reconnect(&self, peer: Peer) {
        self.series().reconnects.get_or_create(&fixed("side", peer.name())).inc();
    }

    /// Records how long a transaction took from its commit to the acknowledgement of its last event.
    pub fn commit_to_ack(&self, latency: Duration) {
        self.series().commit_to_ack.observe(latency.as_secs_f64());
    }

    /// Counts published events by topic.
    #[must_use]
    pub fn topic_tally(&self) -> TopicTally {
        TopicTally::new(self.clone())
    }

    /// Counts rows that were taken away because they are sent, and batches that were left because they would have waited.
    pub fn cleaned(&self, rows: u64, yielded: u64) {
        self.series().cleaned_rows.inc_by(rows);
        self.series().cleanup_yielded.inc_by(yielded);
    }

    /// Counts a partition that was dropped or detached, with its number of rows.
    pub fn partition_taken(&self, rows: u64) {
        self.series().cleaned_rows.inc_by(rows);
        self.series().cleanup_partitions.inc();
    }

    /// Counts notifications that the HTTP server has not taken.
    pub(crate) fn notifications_lost(&self, count: u64) {
        self.series().notifications_lost.inc_by(count);
    }

    /// Counts spans that a collector has taken.
    pub(crate) fn spans_exported(&self, count: u64) {
        self.series().spans_exported.inc_by(count);
    }

    /// Counts spans that no collector has.
    pub(crate) fn spans_lost(&self, loss: SpanLoss, count: u64) {
        self.series().spans_lost.get_or_create(&fixed("reason", loss.name())).inc_by(count);
    }

    /// Counts a slot that was lost and recreated.
    pub fn slot_recovered(&self) {
        self.series().slot_recoveries.inc();
    }

    /// Shows the server's facts of the slot.
    pub fn slot(&self, report: SlotReport) {
        self.series().show_slot(report);
    }

    /// Sets the gauges from the state. Called before [`Metrics::encode`], not by the relay's loop.
    pub fn observe(&self, state: &Snapshot, now: SystemTime) {
        self.series().show_state(state, now);
        if let Some(names) = &self.0.debezium {
            names.show(self.series(), self.info(), state, now);
        }
    }

    /// Returns the series as OpenMetrics text.
    ///
    /// # Errors
    /// When the encoder refuses a series, which no label or value of ours makes it do.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut page = String::new();
        text::encode(&mut page, &self.0.registry)?;
        Ok(page)
    }

    /// Returns the series in Prometheus' own text format, for readers that do not support OpenMetrics.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub fn encode_classic(&self) -> Result<String, fmt::Error> {
        Ok(classic::classic(&self.encode()?))
    }

    /// Returns the configuration in force.
    pub(super) fn info(&self) -> &ConfigInfo {
        &self.0.info
    }

    /// Returns the counts of each topic, unsorted.
    pub(crate) fn topics(&self) -> Vec<TopicCount> {
        self.published().counts()
    }

    /// Returns the number of dead letters for this reason.
    pub(super) fn dead_letters(&self, cause: DeathCause) -> u64 {
        self.series().dead_letters.get_or_create(&fixed("reason", cause.name())).get()
    }

    /// Returns the number of keys whose events become dead letters.
    pub(super) fn held_keys(&self) -> u64 {
        self.series().held_keys.get()
    }

    /// Returns table, reason and number of the rows that are not sent, unsorted.
    pub(super) fn not_sent(&self) -> Vec<(String, &'static str, u64)> {
        self.series().not_sent.counts()
    }

    fn series(&self) -> &Series {
        &self.0.series
    }

    fn published(&self) -> &PublishedByTopic {
        &self.0.series.published
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::status::{Component, Holder, Limits, Phase, Progress, Status, TablesRead};
    use super::*;
    use crate::wal::Lsn;

    fn info() -> ConfigInfo {
        ConfigInfo { slot: "outboxd".into(), inflight_events_max: 20_000, ..ConfigInfo::default() }
    }

    #[test]
    fn every_series_has_its_name_from_the_start() {
        let page = Metrics::new(&info()).encode().unwrap();
        for line in [
            "outboxd_source_lag_seconds 0.0",
            "outboxd_commit_to_ack_seconds_bucket{le=\"0.0005\"} 0",
            "outboxd_commit_to_ack_seconds_count 0",
            "outboxd_wal_changes_total{op=\"insert\"} 0",
            "outboxd_transactions_total 0",
            "outboxd_lsn{kind=\"received\"} 0",
            "outboxd_lsn{kind=\"flushed\"} 0",
            "outboxd_lsn{kind=\"kept\"} 0",
            "outboxd_lsn{kind=\"confirmed\"} 0",
            "outboxd_lsn{kind=\"server\"} 0",
            "outboxd_lag_bytes 0",
            "outboxd_phase{phase=\"connecting\"} 1",
            "outboxd_phase{phase=\"paused\"} 0",
            "outboxd_ready 0",
            "outboxd_warnings 0",
            "outboxd_notes_left_out_total 0",
            "outboxd_event_errors_total{kind=\"route\"} 0",
            "outboxd_postgres_connected 0",
            "outboxd_kafka_connected 0",
            "outboxd_inflight_events 0",
            "outboxd_inflight_events_limit 20000",
            "outboxd_inflight_bytes 0",
            "outboxd_inflight_bytes_limit 0",
            "outboxd_snapshot_tables_remaining 0",
            "outboxd_snapshot_rows 0",
            "outboxd_reconnects_total{side=\"postgres\"} 0",
            "outboxd_slot_status{status=\"lost\"} 0",
            "outboxd_dead_letters_total{reason=\"too_large\"} 0",
            "outboxd_kafka_transactions_total{result=\"aborted\"} 0",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(page.contains("outboxd_config_info{topic_prefix=\"\",database=\"\",slot=\"outboxd\","));
        assert!(page.contains(concat!("outboxd_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"} 1")));
        assert!(!page.contains("_total_total") && !page.contains("outboxd_last_event_timestamp_seconds "));
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn former_names_are_beside_the_others() {
        let metrics = Metrics::new(&ConfigInfo { former_names: true, ..info() });
        metrics.transactions(7);
        let page = metrics.encode().unwrap();
        let of = |prefix| page.lines().filter_map(move |line| line.strip_prefix(prefix)).collect::<Vec<_>>();
        assert_eq!(of("outboxd_"), of("relay_"));
        assert!(of("relay_").contains(&"transactions_total 7") && page.ends_with("# EOF\n"));
        assert!(!Metrics::new(&info()).encode().unwrap().contains("relay_"));
    }

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::new(&info());
        metrics.changes(Change::Delete, 2);
        metrics.transactions(7);
        metrics.skipped("tombstone", 4);
        metrics.event_error("missing_column");
        metrics.publish_error("MessageSizeTooLarge");
        metrics.dead_letter(DeathCause::Key);
        metrics.kafka_transaction(TransactionEnd::Committed);
        metrics.reconnect(Peer::Kafka);
        metrics.commit_to_ack(Duration::from_micros(700));
        let page = metrics.encode().unwrap();
        for line in [
            "outboxd_wal_changes_total{op=\"delete\"} 2",
            "outboxd_transactions_total 7",
            "outboxd_events_skipped_total{reason=\"tombstone\"} 4",
            "outboxd_event_errors_total{kind=\"missing_column\"} 1",
            "outboxd_publish_errors_total{code=\"MessageSizeTooLarge\"} 1",
            "outboxd_dead_letters_total{reason=\"key\"} 1",
            "outboxd_kafka_transactions_total{result=\"committed\"} 1",
            "outboxd_reconnects_total{side=\"kafka\"} 1",
            "outboxd_commit_to_ack_seconds_bucket{le=\"0.0005\"} 0",
            "outboxd_commit_to_ack_seconds_bucket{le=\"0.001\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn gauges_come_from_the_state() {
        let now = Instant::now();
        let status = Status::new(Limits::default(), now);
        status.up(Component::Kafka, now);
        let event = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
        let progress = Progress {
            received: Lsn::new(30),
            confirmed: Lsn::new(10),
            server: Lsn::new(40),
            oldest_commit: Some(event),
            last_event: Some(event),
            inflight_events: 12,
            ..Progress::default()
        };
        status.tick(progress, now);
        status.enter(Phase::StandingBy(Holder { pid: 42, application: String::new() }));
        let metrics = Metrics::new(&info());
        metrics.observe(&status.snapshot(), event + Duration::from_millis(250));
        let page = metrics.encode().unwrap();
        for line in [
            "outboxd_source_lag_seconds 0.25",
            "outboxd_last_event_timestamp_seconds 1.5",
            "outboxd_lsn{kind=\"received\"} 30",
            "outboxd_lag_bytes 30",
            "outboxd_phase{phase=\"standing by\"} 1",
            "outboxd_phase{phase=\"connecting\"} 0",
            "outboxd_postgres_connected 0",
            "outboxd_kafka_connected 1",
            "outboxd_inflight_events 12",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }

    #[test]
    fn a_snapshot_that_does_not_continue_gets_older() {
        let start = Instant::now();
        let status = Status::new(Limits::default(), start);
        let read = |remaining, rows| TablesRead { tables: 2, remaining, rows, ..TablesRead::default() };
        let since = |read, seconds| {
            status.read_tables(read, start + Duration::from_secs(seconds));
            status.snapshot().snapshot_waits.map(|since| (since - start).as_secs())
        };
        assert_eq!(since(read(2, 0), 1), Some(1));
        assert_eq!(since(read(2, 0), 9), Some(1));
        assert_eq!(since(read(2, 5), 20), Some(20));
        assert_eq!(since(read(1, 5), 30), Some(30));
        assert_eq!(since(read(0, 5), 40), None);
        let metrics = Metrics::new(&info());
        metrics.observe(&status.snapshot(), SystemTime::now());
        assert!(metrics.encode().unwrap().contains("outboxd_snapshot_idle_seconds 0.0\n"));
    }

    /// A metric that is renamed would silence its alerts.
    #[test]
    fn what_alerts_and_dashboard_name_is_there() {
        let metrics = Metrics::new(&info());
        metrics.slot(SlotReport {
            retained_bytes: 1,
            safe_wal_bytes: Some(1),
            wal_status: None,
            danger: SlotDanger::None,
        });
        drop(metrics.rows_not_sent("public.a", "columns"));
        metrics.topic_tally().add("a", 1);
        metrics.publish_error("MsgTimedOut");
        metrics.skipped("update", 1);
        let page = metrics.encode_classic().unwrap();
        let families: std::collections::HashSet<_> =
            page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let files = [
            ("alerts", include_str!("../../../docker/prometheus/alerts.yaml")),
            ("dashboard", include_str!("../../../docker/grafana/outboxd.json")),
        ];
        for (file, text) in files {
            let names = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let names: Vec<_> = names.filter(|word| word.starts_with("outboxd_")).collect();
            assert!(names.len() > 10, "{file}");
            for name in names {
                let family = name.strip_suffix("_bucket").unwrap_or(name);
                assert!(families.contains(family), "{file} names {name}, which is not among {families:?}");
            }
        }
    }

    #[test]
    fn the_slot_has_one_status_and_no_safe_size_when_unlimited() {
        let metrics = Metrics::new(&info());
        let report = SlotReport {
            retained_bytes: 77,
            safe_wal_bytes: Some(-5),
            wal_status: Some(WalStatus::Unreserved),
            danger: SlotDanger::Unreserved,
        };
        metrics.slot(report);
        let page = metrics.encode().unwrap();
        assert!(page.contains("outboxd_slot_retained_bytes 77\n"));
        assert!(page.contains("outboxd_slot_safe_wal_bytes -5\n"));
        assert!(page.contains("outboxd_slot_status{status=\"unreserved\"} 1\n"));
        assert!(page.contains("outboxd_slot_status{status=\"reserved\"} 0\n"));
        assert!(page.contains("outboxd_slot_danger 3\n"));

        metrics.slot(SlotReport { safe_wal_bytes: None, wal_status: Some(WalStatus::Reserved), ..report });
        let page = metrics.encode().unwrap();
        assert!(!page.contains("outboxd_slot_safe_wal_bytes "));
        assert!(page.contains("outboxd_slot_status{status=\"unreserved\"} 0\n"));
    }
}
