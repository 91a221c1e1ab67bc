//! From settings to options.

use std::time::Duration;

use super::check::check;
use super::error::{ConfigError, Problem};
use super::layers::{self, Dialect, Layers, Sources};
use super::notice::{Notice, NoticeKind};
use super::read::Reader;
use super::settings::Settings;
use super::{postgres, producer, router};

/// A configuration that can work, as far as it can be told without a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// How PostgreSQL is reached and what is asked of it.
    pub postgres: crate::postgres::Options,
    /// How Kafka is reached.
    pub kafka: crate::kafka::Options,
    /// The relay's limits.
    pub relay: crate::relay::Options,
    /// `topic.prefix`: the logical name, 1 or more of `A-Za-z0-9._-`.
    pub topic_prefix: String,
    /// `name`: the connector's; Debezium Server calls its own `kafka`, and the topic prefix stands in elsewhere.
    pub connector_name: String,
    /// `extended.headers.enabled` (true): whether records carry `__debezium.context.*` headers.
    pub extended_headers: bool,
    /// What is to be told once: assumptions first, then keys that are not acted upon.
    pub notices: Vec<Notice>,
    /// Everything that was said.
    pub(super) settings: Settings,
    /// The EventRouter's alias.
    pub(super) router: String,
}

impl Config {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Every mistake that was found, together.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let Layers { settings, dialect, problems } = layers::collect(sources)?;
        let mut reader = Reader::new(&settings, dialect);
        reader.problems = problems;
        let parts = Parts::read(&mut reader);
        let Reader { problems, mut notices, .. } = reader;
        let postgres = match parts.postgres {
            Ok(postgres) => postgres,
            Err(problem) => return Err(ConfigError::new(problem, problems)),
        };
        let mut problems = problems.into_iter();
        if let Some(first) = problems.next() {
            return Err(ConfigError::new(first, problems.collect()));
        }
        notices.sort_by_key(|notice| notice.kind == NoticeKind::Ignored);
        Ok(Self {
            postgres,
            kafka: parts.kafka,
            relay: parts.relay,
            connector_name: connector_name(&settings, dialect, &parts.topic_prefix),
            topic_prefix: parts.topic_prefix,
            extended_headers: parts.extended_headers,
            notices,
            router: parts.router,
            settings,
        })
    }
}

/// What is read before it is known whether all of it is right.
struct Parts {
    postgres: Result<crate::postgres::Options, Problem>,
    kafka: crate::kafka::Options,
    relay: crate::relay::Options,
    topic_prefix: String,
    extended_headers: bool,
    router: String,
}

impl Parts {
    fn read(reader: &mut Reader<'_>) -> Self {
        let topic_prefix = topic_prefix(reader);
        let router = router::find(reader);
        let connect_timeout = reader.millis("outboxd.connect.timeout.ms", 1, Duration::from_secs(5));
        let postgres = postgres::options(reader, &router, connect_timeout);
        note_converters(reader);
        let kafka = producer::options(reader, connect_timeout);
        check(reader);
        Self {
            postgres,
            kafka,
            relay: relay(reader),
            topic_prefix,
            extended_headers: reader.boolean("extended.headers.enabled", true),
            router,
        }
    }
}

fn connector_name(settings: &Settings, dialect: Dialect, topic_prefix: &str) -> String {
    let unsaid = if dialect == Dialect::Server { "kafka" } else { topic_prefix };
    settings.value("name").unwrap_or(unsaid).to_owned()
}

fn topic_prefix(reader: &mut Reader<'_>) -> String {
    let stand_in = reader.settings.get("database.server.name").filter(|name| !name.value.trim().is_empty());
    let key = match (reader.filled("topic.prefix"), stand_in) {
        (None, Some(name)) => {
            reader.assume("topic.prefix", format!("database.server.name ({name}) stands in for it"));
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

fn relay(reader: &mut Reader<'_>) -> crate::relay::Options {
    let retries: i64 = reader.integer("errors.max.retries", -1..=i64::from(i32::MAX), -1);
    crate::relay::Options {
        inflight_records_max: reader.integer("outboxd.inflight.records.max", 1..=10_000_000, 20_000),
        inflight_bytes_max: reader.integer("outboxd.inflight.bytes.max", 1..=1 << 40, 8 << 20),
        shutdown_timeout: reader.millis("outboxd.shutdown.timeout.ms", 0, Duration::from_secs(25)),
        startup_timeout: reader.patience("outboxd.startup.timeout.ms", Duration::from_secs(5)),
        retries_max: u32::try_from(retries).ok(),
        tolerate_rows: reader.choice("errors.tolerance", &[("none", false), ("all", true)], false),
        skipped: skipped_operations(reader),
    }
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
            "none" if names.len() == 1 => {}
            _ => reader.invalid(setting, "it takes c, u, d and t, or none alone"),
        }
    }
    skipped
}

fn note_converters(reader: &mut Reader<'_>) {
    if reader.filled("key.converter").is_none() {
        reader.assume("key.converter", "keys are sent as text, as StringConverter makes them");
    }
    if reader.filled("value.converter").is_none() {
        reader.assume("value.converter", "values are the payload's own bytes");
    }
}
