//! Arguments of `outboxd init`.

use std::path::PathBuf;

use clap::Args;

use crate::cli::args::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// Database with the outbox or the tables, and the role that creates objects: postgresql://user:password@host:5432/database
    #[arg(long, value_name = "URL")]
    pub(super) postgres: Option<String>,
    /// Kafka brokers; without them topics are not checked
    #[arg(long, value_name = "SERVERS")]
    pub(super) kafka: Option<String>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Configuration file to write, .json or .properties; an existing file is read and not changed. Default: outbox.json, or
    /// changes.json with --tables
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Stream these tables instead of an outbox: comma-separated names (TABLE or SCHEMA.TABLE) or regular expressions, as in
    /// table.include.list
    #[arg(long, value_name = "TABLES", conflicts_with_all = ["table", "preset", "topic", "create_table", "no_poller"])]
    pub(super) tables: Option<String>,
    /// Outbox table, if there are several candidates: TABLE or SCHEMA.TABLE
    #[arg(long, value_name = "TABLE")]
    pub(super) table: Option<String>,
    /// Preset of its columns: debezium, outbox, published_at, processed_at, sent, status, rails, modulith, masstransit,
    /// eventuate, outbox_items; default: detected from the columns
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Option<String>,
    /// Topic, such as outbox.event.${routedByValue} (route.topic.replacement)
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Create the table public.outbox if there is no outbox
    #[arg(long)]
    pub(super) create_table: bool,
    /// Create the replication slot now instead of at the first start of outboxd run
    #[arg(long)]
    pub(super) create_slot: bool,
    /// Role of outboxd run, created with the least privileges it needs; default: the role of --postgres
    #[arg(long, value_name = "ROLE")]
    pub(super) role: Option<String>,
    /// No relay polls the table any more: ignore its column that marks sent rows
    #[arg(long)]
    pub(super) no_poller: bool,
    /// Partitions of created topics; default: the brokers'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) partitions: Option<i32>,
    /// Replicas of created topics; default: the brokers'
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=32_767))]
    pub(super) replication_factor: Option<i32>,
    /// Print the statements as a psql script; change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(super) print_sql: bool,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "print_sql")]
    pub(super) json: bool,
}

impl InitArgs {
    /// Returns the path of the configuration file.
    pub(super) fn file(&self) -> PathBuf {
        let usual = if self.tables.is_some() { "changes.json" } else { "outbox.json" };
        self.into.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    /// Returns the given option that only an outbox has, if there is one.
    pub(super) const fn outbox_option(&self) -> Option<&'static str> {
        match self {
            Self { table: Some(_), .. } => Some("--table"),
            Self { preset: Some(_), .. } => Some("--preset"),
            Self { topic: Some(_), .. } => Some("--topic"),
            Self { create_table: true, .. } => Some("--create-table"),
            Self { no_poller: true, .. } => Some("--no-poller"),
            _ => None,
        }
    }
}
