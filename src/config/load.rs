//! Conversion of settings into options.

use std::time::Duration;

use super::brokers::producer;
use super::draft::Draft;
use super::error::{ConfigError, Problem};
use super::features::router::Transforms;
use super::features::{cleanup, dead_letters, guarantee, metric_tags, offset, position, router, signals};
use super::known::check::check;
use super::notice::{Notice, NoticeKind};
use super::read::Reader;
use super::server::postgres;
use super::source::layers;
use super::source::layers::{Dialect, Layers, Sources};
use super::source::settings::Settings;
use super::source::spelling;
use crate::postgres::{Peer, TableOptions};

/// A configuration that is valid, as far as that can be checked without a server.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Connection to PostgreSQL, slot, publication and tables.
    pub postgres: crate::postgres::Options,
    /// Connection to Kafka, and the producer's properties.
    pub kafka: crate::kafka::Options,
    /// Limits and features of the relay.
    pub relay: crate::relay::Options,
    /// `topic.prefix`: the logical name, 1 or more of `A-Za-z0-9._-`.
    pub topic_prefix: String,
    /// `topic.delimiter` (`.`): separates the parts of the names of the connector's own topics.
    pub topic_delimiter: String,
    /// Endpoint of notifications over HTTP (`notification.enabled.channels=http`).
    pub(crate) notification_posts: Option<crate::relay::PostOptions>,
    /// `extended.headers.enabled` (true): whether records carry `__debezium.context.*` headers.
    pub extended_headers: bool,
    /// `message.prefix.include.list` and `message.prefix.exclude.list`: regular expressions.
    pub message_prefixes: [Vec<String>; 2],
    /// `outboxd.metrics.former.names` (false): whether the metrics have their former names too.
    pub(crate) former_metrics: bool,
    /// `outboxd.metrics.debezium` (false): whether the metrics have Debezium's names too.
    pub debezium_metrics: bool,
    /// `custom.metric.tags`: labels of the metrics with Debezium's names.
    pub metric_tags: Vec<(String, String)>,
    /// `outboxd.tracing.enable` (false): whether records have spans.
    pub tracing: bool,
    /// Filter of columns, and the rules that change their values.
    pub columns: crate::connect::column::ColumnRules,
    /// Notices to report once: assumptions first, then keys that are not used.
    pub notices: Vec<Notice>,
    /// Every setting of the sources.
    pub(super) settings: Settings,
    /// Aliases of the transforms.
    pub(super) transforms: Transforms,
}

impl Config {
    /// Reads and checks a configuration, except for the options of other modules.
    #[cfg(test)]
    pub(crate) fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let (config, ()) = Self::draft(sources)?.finish(Ok(()))?;
        Ok(config)
    }

    /// Reads a configuration and collects its mistakes, so that those of further options can join them.
    ///
    /// # Errors
    /// Returns an error when a file cannot be read.
    pub(crate) fn draft(sources: &Sources) -> Result<Draft, ConfigError> {
        let Layers { settings, dialect, problems, notices, unread, .. } = layers::collect(sources)?;
        let mut reader = Reader::new(&settings, dialect);
        (reader.problems, reader.notices) = (problems, notices);
        let parts = Parts::read(&mut reader);
        let Reader { mut problems, mut notices, .. } = reader;
        // A key whose value could not be read is not missing as well.
        problems.retain(|problem| match problem {
            Problem::Missing { key, .. } => {
                !spelling::canonical(key).iter().any(|key| unread.contains_key(key))
            }
            _ => true,
        });
        notices.sort_by_key(|notice| notice.kind == NoticeKind::Ignored);
        let config = Self {
            postgres: parts.postgres,
            kafka: parts.kafka,
            relay: parts.relay,
            topic_prefix: parts.topic_prefix,
            topic_delimiter: parts.topic_delimiter,
            notification_posts: parts.notification_posts,
            extended_headers: parts.extended_headers,
            message_prefixes: parts.message_prefixes,
            debezium_metrics: parts.debezium_metrics,
            former_metrics: parts.former_metrics,
            metric_tags: parts.metric_tags,
            tracing: parts.tracing,
            columns: parts.columns,
            notices,
            transforms: parts.transforms,
            settings,
        };
        Ok(Draft::new(config, dialect, problems))
    }
}

/// Options that are read before all of them are known to be valid.
struct Parts {
    postgres: crate::postgres::Options,
    kafka: crate::kafka::Options,
    relay: crate::relay::Options,
    topic_prefix: String,
    topic_delimiter: String,
    notification_posts: Option<crate::relay::PostOptions>,
    extended_headers: bool,
    message_prefixes: [Vec<String>; 2],
    debezium_metrics: bool,
    former_metrics: bool,
    metric_tags: Vec<(String, String)>,
    tracing: bool,
    transforms: Transforms,
    columns: crate::connect::column::ColumnRules,
}

impl Parts {
    fn read(reader: &mut Reader<'_>) -> Self {
        let topic_prefix = topic_prefix(reader);
        let topic_delimiter = reader.filled("topic.delimiter").unwrap_or(".").to_owned();
        let transforms = router::find(reader);
        let connector_name = connector_name(reader.settings, reader.dialect, &topic_prefix);
        let mut dead_letters = dead_letters::options(reader, &connector_name);
        let (guarantee, transactions) = guarantee::options(reader, &topic_prefix, &topic_delimiter);
        let offsets = offset::options(reader, &connector_name, &topic_prefix);
        let sends_changes = transforms.router.is_none();
        let cleanup = cleanup::options(reader, sends_changes);
        dead_letters.iter_mut().for_each(|letters| letters.keeps_values = cleanup.enabled);
        let notifications = signals::notifications(reader, sends_changes);
        let notification_posts = signals::notification_posts(reader, &notifications);
        let connect_timeout = reader.millis("outboxd.connect.timeout.ms", 1, Duration::from_secs(5));
        let mut postgres = postgres::options(reader, transforms.router.as_deref(), connect_timeout);
        let signals = signals::options(reader, &topic_prefix, sends_changes, postgres.read_only);
        postgres.tables.signals.clone_from(&signals.table);
        postgres.slot.peer = peer(&connector_name, &topic_prefix, &postgres.tables);
        let position = position(reader, &connector_name, &topic_prefix, &postgres);
        note_converters(reader, sends_changes);
        let kafka = producer::options(reader, connect_timeout);
        check(reader);
        Self {
            postgres,
            kafka,
            relay: crate::relay::Options {
                offsets,
                position,
                dead_letters,
                transactions,
                signals,
                notifications,
                cleanup,
                ..relay(reader, &[&topic_delimiter, &topic_prefix].map(String::as_str).concat(), guarantee)
            },
            topic_prefix,
            topic_delimiter,
            notification_posts,
            extended_headers: reader.boolean("extended.headers.enabled", true),
            message_prefixes: [
                reader.regex_list("message.prefix.include.list"),
                reader.regex_list("message.prefix.exclude.list"),
            ],
            debezium_metrics: reader.boolean("outboxd.metrics.debezium", false),
            former_metrics: reader.boolean("outboxd.metrics.former.names", false),
            metric_tags: metric_tags::options(reader),
            tracing: router::tracing(reader),
            transforms,
            columns: super::server::columns::rules(reader),
        }
    }
}

/// Returns the identity that the instances of one service share.
fn peer(connector_name: &str, topic_prefix: &str, tables: &TableOptions) -> Peer {
    let TableOptions { schema_include, schema_exclude, table_include, table_exclude, .. } = tables;
    Peer::new(connector_name, topic_prefix, &[schema_include, schema_exclude, table_include, table_exclude])
}

fn connector_name(settings: &Settings, dialect: Dialect, topic_prefix: &str) -> String {
    let unsaid = if dialect == Dialect::Server { "kafka" } else { topic_prefix };
    settings.value("name").unwrap_or(unsaid).to_owned()
}

fn topic_prefix(reader: &mut Reader<'_>) -> String {
    let stand_in = reader.settings.get("database.server.name").filter(|name| !name.value.trim().is_empty());
    let key = match (reader.filled("topic.prefix"), stand_in) {
        (None, Some(name)) => {
            reader.assume("topic.prefix", format!("database.server.name ({name}) is used instead"));
            "database.server.name"
        }
        _ => "topic.prefix",
    };
    let prefix = reader.required(key, "the logical name of this source, as in Debezium", "orders");
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if let Some(setting) = reader.settings.get(key).filter(|_| !prefix.chars().all(legal)) {
        reader.invalid(setting, "it may hold letters, digits, dots, underscores and dashes");
    }
    prefix
}

fn position(
    reader: &mut Reader<'_>,
    connector: &str,
    topic_prefix: &str,
    postgres: &crate::postgres::Options,
) -> crate::relay::PositionOptions {
    let (database, slot) = (postgres.server.database.as_str(), postgres.slot.name.as_str());
    position::options(reader, position::Names { connector, topic_prefix, database, slot })
}

/// Reads the options of the relay. `topic_suffix` follows the prefix in the names of the connector's own topics.
fn relay(
    reader: &mut Reader<'_>,
    topic_suffix: &str,
    guarantee: crate::relay::Guarantee,
) -> crate::relay::Options {
    // Nothing is sent while a transaction is committed: large transactions are better.
    let exactly_once = guarantee == crate::relay::Guarantee::ExactlyOnce;
    let (records_max, bytes_max) = if exactly_once { (10_000, 16 << 20) } else { (3_500, 4 << 20) };
    let retries: i64 = reader.integer("errors.max.retries", -1..=i64::from(i32::MAX), -1);
    crate::relay::Options {
        inflight_records_max: reader.integer("outboxd.inflight.records.max", 1..=10_000_000, records_max),
        inflight_bytes_max: reader.integer("outboxd.inflight.bytes.max", 1..=1 << 40, bytes_max),
        shutdown_timeout: reader.millis("outboxd.shutdown.timeout.ms", 0, Duration::from_secs(25)),
        startup_timeout: reader.patience("outboxd.startup.timeout.ms", Duration::from_secs(5)),
        retries_max: u32::try_from(retries).ok(),
        tolerate_rows: reader.choice("errors.tolerance", &[("none", false), ("all", true)], false),
        dead_letters: None,
        unreadable_rows: unreadable_rows(reader),
        skipped: skipped_operations(reader),
        heartbeat: heartbeat(reader, topic_suffix),
        guard: guard(reader),
        offsets: None,
        position: crate::relay::PositionOptions::default(),
        identity_headers: identity_headers(reader, guarantee),
        guarantee,
        transactions: None,
        signals: crate::signal::SignalOptions::none(),
        notifications: crate::signal::NotificationOptions::default(),
        cleanup: crate::cleanup::CleanupOptions::default(),
    }
}

/// Reads whether records have identity headers. `tail_dedupe` needs them: it searches for them at the end of a topic.
fn identity_headers(reader: &mut Reader<'_>, guarantee: crate::relay::Guarantee) -> bool {
    const KEY: &str = "outboxd.identity.headers";
    let needed = guarantee == crate::relay::Guarantee::TailDedupe;
    let wanted = reader.boolean(KEY, needed);
    if let Some(setting) = reader.settings.get(KEY).filter(|_| needed && !wanted) {
        reader.invalid(setting, "outboxd.delivery.guarantee=tail_dedupe needs them");
    }
    wanted
}

fn guard(reader: &mut Reader<'_>) -> crate::relay::GuardOptions {
    let bytes: u64 = reader.integer("outboxd.slot.warn.bytes", 0..=1 << 60, 10 << 30);
    crate::relay::GuardOptions {
        warn_bytes: (bytes > 0).then_some(bytes),
        warn_percent: reader.integer("outboxd.slot.warn.percent", 1..=100, 50),
        alarm_percent: reader.integer("outboxd.slot.alarm.percent", 1..=100, 80),
        unacknowledged_max: reader.millis("outboxd.unacknowledged.age.max.ms", 1, Duration::from_secs(60)),
    }
}

fn heartbeat(reader: &mut Reader<'_>, topic_suffix: &str) -> Option<crate::relay::HeartbeatOptions> {
    let interval = reader.millis("heartbeat.interval.ms", 0, Duration::ZERO);
    let prefix = reader.filled("topic.heartbeat.prefix").unwrap_or("__debezium-heartbeat");
    let topic = match reader.filled("topic.heartbeat.name") {
        Some(name) => name.to_owned(),
        None => format!("{prefix}{topic_suffix}"),
    };
    let query = reader.filled("heartbeat.action.query").map(str::to_owned);
    (!interval.is_zero()).then_some(crate::relay::HeartbeatOptions { interval, topic, query })
}

fn unreadable_rows(reader: &mut Reader<'_>) -> crate::relay::ProcessingFailure {
    use crate::relay::ProcessingFailure::{Fail, Skip, Warn};
    let modes = [("fail", Fail), ("warn", Warn), ("skip", Skip), ("ignore", Skip)];
    reader.choice("event.processing.failure.handling.mode", &modes, Fail)
}

fn skipped_operations(reader: &mut Reader<'_>) -> crate::relay::SkippedOperations {
    use crate::relay::SkippedOperations;

    let mut skipped = SkippedOperations { create: false, update: false, delete: false, truncate: false };
    let Some(setting) = reader.settings.get("skipped.operations") else {
        return SkippedOperations { truncate: true, ..skipped };
    };
    let names: Vec<_> = setting.value.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    for name in &names {
        match name.to_ascii_lowercase().as_str() {
            "c" => skipped.create = true,
            "u" => skipped.update = true,
            "d" => skipped.delete = true,
            "t" => skipped.truncate = true,
            // Debezium accepts `r`, the rows of a snapshot, and sends them nevertheless.
            "r" => {}
            "none" if names.len() == 1 => {}
            _ => reader.invalid(setting, "it must be a list of c, u, d, t and r, or none"),
        }
    }
    skipped
}

fn note_converters(reader: &mut Reader<'_>, sends_changes: bool) {
    let class = reader.filled("value.converter").and_then(|class| class.rsplit('.').next());
    let source = reader.filled("value.converter.metadata.source").unwrap_or_default();
    let from_headers = source.trim_start().to_ascii_lowercase().starts_with("header");
    if class == Some("CloudEventsConverter") && !from_headers && router::is_there(reader) {
        let text = "CloudEventsConverter makes events of change events only: what the EventRouter has made is sent \
                    without its value, as Debezium sends it";
        reader.assume("value.converter", text);
    }
    if sends_changes {
        for key in ["key.converter", "value.converter"] {
            if reader.filled(key).is_none() {
                reader.note_default(key, "JSON with schemas, as JsonConverter writes it");
            }
        }
        return;
    }
    if reader.filled("key.converter").is_none() {
        reader.note_default("key.converter", "keys are sent as text, as StringConverter makes them");
    }
    if reader.filled("value.converter").is_none() {
        reader.note_default("value.converter", "values are the payload's own bytes");
    }
}
