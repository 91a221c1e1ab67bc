use crate::config::{Config, ConverterRole, Notice, Sources};
use crate::connect::column::ColumnOptions;
use crate::connect::converter::Converters;
use crate::error::Diagnose;
use crate::kafka::Producer;
use crate::outbox::{EventContext, EventRouter, EventRouterOptions};
use crate::postgres::TableFilter;
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
pub(super) fn assemble(args: &ConfigArgs) -> Result<Assembly, Box<dyn Diagnose>> {
    let sources = Sources {
        files: args.config.clone(),
        environment: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        overrides: args.set.clone(),
    };
    let config = Config::load(&sources)?;
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
