use crate::config::{Config, ConfigError, Notice, Sources};
use crate::connect::OptionError;
use crate::connect::column::ColumnOptions;
use crate::connect::converter::Converters;
use crate::error::{Class, Diagnose};
use crate::kafka::{self, Producer};
use crate::outbox::{EventContext, EventRouter, EventRouterOptions};
use crate::postgres::{InvalidPattern, TableFilter};
use crate::relay::RelayParts;
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
    Pattern(#[from] InvalidPattern),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
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
            Self::Pattern(_) => Some("correct the regular expression".to_owned()),
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
    let tables = TableFilter::new(&config.postgres.tables)?;
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
        producer,
    };
    Ok(Assembly { parts, notices: config.notices, info })
}

fn router(config: &Config) -> Result<EventRouter, AssembleError> {
    let said = |key: &str| config.option(key);
    let refused = |error: OptionError| config.option_error(&error.key, &error.reason);
    let columns = ColumnOptions::parse(&said).map_err(refused)?;
    let converters = Converters::parse(&said).map_err(refused)?;
    let options = EventRouterOptions::parse(&|option| config.transform_option(option))
        .map_err(|error| config.transform_error(&error.key, &error.reason))?;
    let run_id = config.extended_headers.then(|| uuid::Uuid::now_v7().to_string());
    let context = EventContext {
        option_prefix: config.transform_prefix(),
        topic_prefix: config.topic_prefix.clone(),
        run_id,
        columns,
    };
    Ok(EventRouter::new(options, converters, context).map_err(refused)?)
}
