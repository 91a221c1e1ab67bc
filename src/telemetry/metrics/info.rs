//! The configuration in the metrics.

/// Contents of `outboxd_config_info`, and the limits of what is in flight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigInfo {
    /// `topic.prefix`.
    pub topic_prefix: String,
    /// `database.dbname`.
    pub database: String,
    /// `slot.name`.
    pub slot: String,
    /// `publication.name`.
    pub publication: String,
    /// The captured tables, separated by commas.
    pub tables: String,
    /// `outboxd.inflight.records.max`.
    pub inflight_events_max: usize,
    /// `outboxd.inflight.bytes.max`.
    pub inflight_bytes_max: usize,
    /// `outboxd.metrics.debezium`: whether there are series under Debezium's names too.
    pub debezium_names: bool,
    /// `outboxd.metrics.former.names`: whether there are series under `relay_`, the prefix before, too.
    pub former_names: bool,
    /// `custom.metric.tags`: further labels of these.
    pub metric_tags: Vec<(String, String)>,
}
