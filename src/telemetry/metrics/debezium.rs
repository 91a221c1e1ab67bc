//! The names that Prometheus' JMX exporter gives the metrics of Debezium's PostgreSQL connector, with
//! `outboxd.metrics.debezium`: dashboards go on. What the process does not know has no series.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::labels::{Change, fixed};
use super::series::Series;
use super::{ConfigInfo, UNCHANGED};
use crate::telemetry::status::Snapshot;

type Labels = [(&'static str, Cow<'static, str>); 3];

/// Bean of the connector that has an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    Streaming,
    Snapshot,
}

impl Context {
    const ALL: [Self; 2] = [Self::Streaming, Self::Snapshot];

    const fn name(self) -> &'static str {
        match self {
            Self::Streaming => "streaming",
            Self::Snapshot => "snapshot",
        }
    }
}

/// Sources of the values.
struct Seen<'a> {
    state: &'a Snapshot,
    series: &'a Series,
    info: &'a ConfigInfo,
    now: SystemTime,
}

struct Attribute {
    name: &'static str,
    help: &'static str,
    /// `None` in a context that does not have it.
    value: fn(&Seen<'_>, Context) -> Option<u64>,
}

/// The exporter knows no counters among them, so none of the names ends in `_total`.
const ATTRIBUTES: [Attribute; 17] = [
    Attribute {
        name: "MilliSecondsBehindSource",
        help: "Age of the oldest commit whose events are not all acknowledged",
        value: |seen, context| streaming(context, millis(seen.state.progress.lag(seen.now))),
    },
    Attribute {
        name: "MilliSecondsSinceLastEvent",
        help: "How long ago the last event was received; absent before the first",
        value: |seen, context| streaming(context, seen.last_event_age()?),
    },
    Attribute {
        name: "TotalNumberOfEventsSeen",
        help: "Changes read from the WAL; rows that the last snapshot handed over",
        value: |seen, context| match context {
            Context::Streaming => Some(Change::ALL.into_iter().map(|change| seen.changes(change)).sum()),
            Context::Snapshot => Some(seen.state.tables_read.rows),
        },
    },
    Attribute {
        name: "TotalNumberOfCreateEventsSeen",
        help: "Inserts read from the WAL",
        value: |seen, context| streaming(context, seen.changes(Change::Insert)),
    },
    Attribute {
        name: "TotalNumberOfUpdateEventsSeen",
        help: "Updates read from the WAL",
        value: |seen, context| streaming(context, seen.changes(Change::Update)),
    },
    Attribute {
        name: "TotalNumberOfDeleteEventsSeen",
        help: "Deletes read from the WAL",
        value: |seen, context| streaming(context, seen.changes(Change::Delete)),
    },
    Attribute {
        name: "NumberOfCommittedTransactions",
        help: "Transactions whose commit was read",
        value: |seen, context| streaming(context, seen.series.transactions.get()),
    },
    Attribute {
        name: "NumberOfUnchangedEventsSkipped",
        help: "Updates that were skipped because no captured column had changed",
        value: |seen, context| {
            let skipped = seen.series.skipped.get_or_create(&fixed("reason", UNCHANGED)).get();
            streaming(context, skipped)
        },
    },
    Attribute {
        name: "Connected",
        help: "Whether PostgreSQL answers",
        value: |seen, context| streaming(context, seen.state.postgres.is_up().into()),
    },
    Attribute {
        name: "QueueTotalCapacity",
        help: "The most records that may be in flight",
        value: |seen, _| Some(count(seen.info.inflight_events_max)),
    },
    Attribute {
        name: "QueueRemainingCapacity",
        help: "How many more records may be in flight",
        value: |seen, _| {
            let (most, now) = (seen.info.inflight_events_max, seen.state.progress.inflight_events);
            Some(count(most.saturating_sub(now)))
        },
    },
    Attribute {
        name: "MaxQueueSizeInBytes",
        help: "The most bytes that may be in flight",
        value: |seen, _| Some(count(seen.info.inflight_bytes_max)),
    },
    Attribute {
        name: "CurrentQueueSizeInBytes",
        help: "Key and value bytes in flight",
        value: |seen, _| Some(count(seen.state.progress.inflight_bytes)),
    },
    Attribute {
        name: "SnapshotRunning",
        help: "Whether a snapshot has begun and is not at its end",
        value: |seen, context| snapshot(context, (seen.state.tables_read.remaining > 0).into()),
    },
    Attribute {
        name: "SnapshotCompleted",
        help: "Whether the process has sent a snapshot to its end",
        value: |seen, context| {
            let read = seen.state.tables_read;
            snapshot(context, (read.is_complete || read.tables > 0 && read.remaining == 0).into())
        },
    },
    Attribute {
        name: "TotalTableCount",
        help: "Tables of the last snapshot",
        value: |seen, context| snapshot(context, seen.state.tables_read.tables),
    },
    Attribute {
        name: "RemainingTableCount",
        help: "Tables of the last snapshot that are not read to their end",
        value: |seen, context| snapshot(context, seen.state.tables_read.remaining),
    },
];

fn streaming(context: Context, value: u64) -> Option<u64> {
    (context == Context::Streaming).then_some(value)
}

fn snapshot(context: Context, value: u64) -> Option<u64> {
    (context == Context::Snapshot).then_some(value)
}

impl Seen<'_> {
    fn changes(&self, change: Change) -> u64 {
        self.series.changes.get_or_create(&fixed("op", change.name())).get()
    }

    fn last_event_age(&self) -> Option<u64> {
        let last = self.state.progress.last_event?;
        Some(millis(self.now.duration_since(last).unwrap_or_default()))
    }
}

/// The series under Debezium's names. They are shown from the first look on.
#[derive(Debug)]
pub(super) struct DebeziumNames {
    prefix: String,
    gauges: Vec<Family<Labels, Gauge>>,
}

impl DebeziumNames {
    pub(super) fn register(info: &ConfigInfo, registry: &mut Registry) -> Self {
        let tags = info.metric_tags.iter().cloned();
        let registry = registry
            .sub_registry_with_labels(tags.map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))))
            .sub_registry_with_prefix("debezium_metrics");
        let gauges = ATTRIBUTES.iter().map(|attribute| {
            let gauge = Family::default();
            registry.register(attribute.name, attribute.help, Family::clone(&gauge));
            gauge
        });
        Self { prefix: info.topic_prefix.clone(), gauges: gauges.collect() }
    }

    pub(super) fn show(&self, series: &Series, info: &ConfigInfo, state: &Snapshot, now: SystemTime) {
        let seen = Seen { state, series, info, now };
        for (attribute, gauge) in ATTRIBUTES.iter().zip(&self.gauges) {
            for context in Context::ALL {
                if let Some(value) = (attribute.value)(&seen, context) {
                    gauge.get_or_create(&self.labels(context)).set(i64::try_from(value).unwrap_or(i64::MAX));
                }
            }
        }
    }

    fn labels(&self, context: Context) -> Labels {
        [
            ("plugin", Cow::Borrowed("postgres")),
            ("name", Cow::Owned(self.prefix.clone())),
            ("context", Cow::Borrowed(context.name())),
        ]
    }
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

fn count(of: usize) -> u64 {
    u64::try_from(of).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::*;
    use crate::telemetry::metrics::Metrics;
    use crate::telemetry::status::{Component, Limits, Progress, Status, TablesRead};

    const PAGE: &str = include_str!("../../../docs/operations.md");

    fn info() -> ConfigInfo {
        ConfigInfo {
            topic_prefix: "shop".into(),
            inflight_events_max: 3_500,
            inflight_bytes_max: 4_096,
            debezium_names: true,
            ..ConfigInfo::default()
        }
    }

    fn at(millis: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// Returns the lines of Debezium's names, without their common prefix.
    fn shown(info: &ConfigInfo) -> BTreeSet<String> {
        let (now, metrics) = (Instant::now(), Metrics::new(info));
        let status = Status::new(Limits::default(), now);
        status.up(Component::Postgres, now);
        let read = TablesRead { tables: 3, remaining: 1, rows: 70, ..TablesRead::default() };
        status.read_tables(read, now);
        let progress = Progress {
            oldest_commit: Some(at(1_000)),
            last_event: Some(at(1_500)),
            inflight_events: 500,
            inflight_bytes: 96,
            ..Progress::default()
        };
        status.tick(progress, now);
        metrics.changes(Change::Insert, 5);
        metrics.changes(Change::Update, 2);
        metrics.changes(Change::Message, 1);
        metrics.transactions(4);
        metrics.skipped(UNCHANGED, 3);
        metrics.observe(&status.snapshot(), at(3_000));
        let page = metrics.encode().unwrap();
        assert!(page.contains("outboxd_transactions_total 4\n") && page.ends_with("# EOF\n"));
        assert_eq!(page.matches("# EOF").count(), 1);
        page.lines().filter_map(|line| line.strip_prefix("debezium_metrics_")).map(str::to_owned).collect()
    }

    #[test]
    fn the_names_are_those_of_the_exporter() {
        let streaming = [
            ("MilliSecondsBehindSource", 2_000),
            ("MilliSecondsSinceLastEvent", 1_500),
            ("TotalNumberOfEventsSeen", 8),
            ("TotalNumberOfCreateEventsSeen", 5),
            ("TotalNumberOfUpdateEventsSeen", 2),
            ("TotalNumberOfDeleteEventsSeen", 0),
            ("NumberOfCommittedTransactions", 4),
            ("NumberOfUnchangedEventsSkipped", 3),
            ("Connected", 1),
        ];
        let snapshot = [
            ("TotalNumberOfEventsSeen", 70),
            ("SnapshotRunning", 1),
            ("SnapshotCompleted", 0),
            ("TotalTableCount", 3),
            ("RemainingTableCount", 1),
        ];
        let both = [
            ("QueueTotalCapacity", 3_500),
            ("QueueRemainingCapacity", 3_000),
            ("MaxQueueSizeInBytes", 4_096),
            ("CurrentQueueSizeInBytes", 96),
        ];
        let line = |(name, value): &(&str, u64), context: &str| {
            format!("{name}{{plugin=\"postgres\",name=\"shop\",context=\"{context}\"}} {value}")
        };
        let expected = streaming.iter().chain(&both).map(|one| line(one, "streaming"));
        let expected = expected.chain(snapshot.iter().chain(&both).map(|one| line(one, "snapshot")));
        assert_eq!(shown(&info()), expected.collect());
    }

    #[test]
    fn tags_are_labels_of_each() {
        let metric_tags =
            vec![("team".to_owned(), "shop".to_owned()), ("stage".to_owned(), "a\"b".to_owned())];
        let lines = shown(&ConfigInfo { metric_tags, ..info() });
        let tagged = r#"{team="shop",stage="a\"b",plugin="postgres",name="shop","#;
        assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(tagged)), "{lines:?}");
    }

    #[test]
    fn nothing_is_there_unless_it_is_asked_for() {
        assert_eq!(shown(&ConfigInfo { debezium_names: false, ..info() }), BTreeSet::new());
    }

    #[test]
    fn a_snapshot_without_tables_is_completed() {
        let (metrics, status) = (Metrics::new(&info()), Status::new(Limits::default(), Instant::now()));
        status.read_tables(TablesRead { is_complete: true, ..TablesRead::default() }, Instant::now());
        metrics.observe(&status.snapshot(), at(0));
        let page = metrics.encode().unwrap();
        let line = page.lines().find(|line| line.starts_with("debezium_metrics_SnapshotCompleted{"));
        assert!(line.is_some_and(|line| line.ends_with(" 1")), "{page}");
    }

    #[test]
    fn what_is_not_known_is_not_shown() {
        let metrics = Metrics::new(&info());
        metrics.observe(&Status::new(Limits::default(), Instant::now()).snapshot(), at(0));
        let page = metrics.encode().unwrap();
        assert!(page.contains("debezium_metrics_MilliSecondsBehindSource{"));
        assert!(!page.contains("debezium_metrics_MilliSecondsSinceLastEvent{"));
    }

    #[test]
    fn the_handbook_has_them_all() {
        let section = PAGE.split_once("\n### Debezium's names\n").unwrap().1.split_once("\n## ").unwrap().0;
        let table = section.split_once("\n| missing ").unwrap().0;
        let told: BTreeSet<_> = table
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split_once("` |"))
            .flat_map(|(names, _)| names.split("`, `"))
            .collect();
        let lines = shown(&info());
        let there: BTreeSet<_> =
            lines.iter().filter_map(|line| line.split_once('{')).map(|(name, _)| name).collect();
        assert_eq!(told, there);
    }
}
