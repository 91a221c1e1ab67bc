use crate::config::{Config, ConfigError, Notice, Sources};
use crate::connect::column::ColumnOptions;
use crate::connect::converter::avro::SchemaIds;
use crate::connect::converter::{ConvertError, Converter, Converters};
use crate::connect::{NameAdjustment, OptionError};
use crate::error::{Class, Diagnose};
use crate::kafka::{self, Producer};
use crate::outbox::{
    Condition, EventContext, EventRouter, EventRouterOptions, MessageOutbox, MessagePrefixes,
    check_topic_name,
};
use crate::postgres::TableFilter;
use crate::registry::{self, Registries, SetupError};
use crate::relay::{DeadLetters, RelayParts};
use crate::telemetry::ConfigInfo;

use super::args::ConfigArgs;

/// A configuration, understood and made into parts. No server has been asked yet.
#[derive(Debug)]
pub(super) struct Assembly {
    pub(super) parts: RelayParts,
    pub(super) notices: Vec<Notice>,
    pub(super) info: ConfigInfo,
}

/// Why a configuration cannot run.
#[derive(Debug, thiserror::Error)]
pub(super) enum AssembleError {
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

impl From<ConfigError> for AssembleError {
    fn from(error: ConfigError) -> Self {
        Self::Config(Box::new(error))
    }
}

impl Diagnose for AssembleError {
    fn class(&self) -> Class {
        Class::Config
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Registry(error) => error.cure(),
        }
    }
}

impl Assembly {
    /// What flows where, in one line.
    pub(super) fn route(&self) -> String {
        let ConfigInfo { database, tables, .. } = &self.info;
        let tables = if tables.is_empty() { "outbox" } else { tables };
        format!("{database}/{tables} → {}", self.parts.kafka.bootstrap_servers)
    }
}

/// Reads the configuration and builds what runs it.
///
/// # Errors
/// When the configuration cannot work.
pub(super) fn assemble(args: &ConfigArgs) -> Result<Assembly, AssembleError> {
    let sources = Sources {
        files: args.config.clone(),
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        overrides: args.set.clone(),
    };
    assemble_sources(&sources)
}

/// The same from a configuration that need not be in a file.
///
/// # Errors
/// When the configuration cannot work.
pub(super) fn assemble_sources(sources: &Sources) -> Result<Assembly, AssembleError> {
    let config = Config::load(sources)?;
    let router = router(&config)?;
    let messages = messages(&config, &router)?;
    check_heartbeat(&config, &router)?;
    let dead_letters = dead_letters(&config)?;
    let registries = registries(&config, router.converters())?;
    let tables = TableFilter::new(&config.postgres.tables).map_err(|error| config.refuse(&error))?;
    let producer = Producer::new(&config.kafka)?;
    let info = ConfigInfo {
        topic_prefix: config.topic_prefix.clone(),
        database: config.postgres.server.database.clone(),
        slot: config.postgres.slot.name.to_string(),
        publication: config.postgres.publication.name.clone(),
        tables: config.postgres.tables.table_include.join(","),
        inflight_events_max: config.relay.inflight_records_max,
        inflight_bytes_max: config.relay.inflight_bytes_max,
    };
    let parts = RelayParts {
        postgres: config.postgres,
        kafka: config.kafka,
        relay: config.relay,
        tables,
        router,
        messages,
        producer,
        dead_letters,
        registries,
    };
    Ok(Assembly { parts, notices: config.notices, info })
}

fn router(config: &Config) -> Result<EventRouter, AssembleError> {
    let said = |key: &str| config.option(key);
    let refused = |error: OptionError| config.refuse(&error);
    let columns = ColumnOptions::parse(&said).map_err(refused)?;
    let converters = Converters::parse(&said).map_err(refused)?;
    let options = EventRouterOptions::parse(&|option| config.transform_option(option))
        .map_err(|error| config.transform_error(&error.key, &error.reason))?;
    let run_id = config.extended_headers.then(|| uuid::Uuid::now_v7().to_string());
    let context = EventContext {
        option_prefix: config.transform_prefix(),
        topic_prefix: config.topic_prefix.clone(),
        topic_delimiter: config.topic_delimiter.clone(),
        run_id,
        columns,
        condition: Condition::parse(&said, &config.transform_prefix()).map_err(refused)?,
        rules: config.columns.clone(),
        schema_names: NameAdjustment::parse(&said, "schema.name.adjustment.mode").map_err(refused)?,
        field_names: NameAdjustment::parse(&said, "field.name.adjustment.mode").map_err(refused)?,
    };
    Ok(EventRouter::new(options, converters, context).map_err(refused)?)
}

const HEARTBEAT_NAME: &str = "topic.heartbeat.name";

/// Refuses heartbeats that the converters could never write.
fn check_heartbeat(config: &Config, router: &EventRouter) -> Result<(), AssembleError> {
    let Some(options) = &config.relay.heartbeat else { return Ok(()) };
    if let Err(reason) = check_topic_name(&options.topic) {
        let key =
            if config.option(HEARTBEAT_NAME).is_some() { HEARTBEAT_NAME } else { "topic.heartbeat.prefix" };
        return Err(config.option_error(key, &reason.to_string()).into());
    }
    match router.heartbeat(options.topic.clone()).beat(0, &mut SchemaIds::default()) {
        // A schema is registered when it is needed.
        Ok(_) | Err(ConvertError::Unregistered(_)) => Ok(()),
        Err(error) => {
            let reason = format!(
                "key.converter or value.converter cannot write heartbeats, which are structs: {error}"
            );
            Err(config.option_error("heartbeat.interval.ms", &reason).into())
        }
    }
}

fn dead_letters(config: &Config) -> Result<Option<DeadLetters>, AssembleError> {
    let Some(options) = &config.relay.dead_letters else { return Ok(None) };
    match check_topic_name(&options.topic) {
        Ok(()) => Ok(Some(DeadLetters::new(options.clone()))),
        Err(reason) => {
            Err(config.option_error("errors.deadletterqueue.topic.name", &reason.to_string()).into())
        }
    }
}

/// The outbox of logical messages, when the configuration decodes them.
fn messages(config: &Config, router: &EventRouter) -> Result<Option<MessageOutbox>, AssembleError> {
    let Some(prefix) = config.decoder_prefix() else { return Ok(None) };
    let said = |key: &str| config.option(key);
    let refused = |error: OptionError| config.refuse(&error);
    let condition = Condition::parse(&said, &prefix).map_err(refused)?;
    let topic = router.message_topic();
    let unapplied = [
        (&prefix, condition.is_none_or(|condition| condition.holds(&topic, std::iter::empty()))),
        (&config.transform_prefix(), router.acts_on_messages()),
    ];
    if let Some((prefix, _)) = unapplied.iter().find(|(_, holds)| !holds) {
        let reason = format!(
            "it leaves out logical messages (topic {topic}), which Debezium would send as they are and outboxd does not"
        );
        return Err(config.option_error(&format!("{prefix}predicate"), &reason).into());
    }
    let [include, exclude] = &config.message_prefixes;
    let prefixes = MessagePrefixes::new(include, exclude).map_err(refused)?;
    let outbox = router.messages(prefixes, &|option| config.option(&format!("{prefix}{option}")));
    let refused = |error: OptionError| config.option_error(&format!("{prefix}{}", error.key), &error.reason);
    Ok(Some(outbox.map_err(refused)?))
}

fn registries(config: &Config, converters: &Converters) -> Result<Registries, AssembleError> {
    let refused = |error: OptionError| config.refuse(&error);
    for avro in [&converters.key, &converters.value].into_iter().filter_map(Converter::avro) {
        for (key, setting) in config.settings().iter() {
            registry::Options::check_known(avro, key, &setting.value).map_err(refused)?;
        }
    }
    Registries::new(converters, &|key| config.option(key)).map_err(|error| match error {
        SetupError::Option(error) => refused(error).into(),
        SetupError::Registry(error) => error.into(),
    })
}
