use std::path::PathBuf;

use clap::Args;

use crate::cli::args::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct InitArgs {
    /// The database with the outbox or the tables, and who makes what is missing there: postgresql://user:password@host:5432/database
    #[arg(long, value_name = "URL")]
    pub(super) postgres: Option<String>,
    /// The brokers; without them no topic is looked at
    #[arg(long, value_name = "SERVERS")]
    pub(super) kafka: Option<String>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// The configuration file to write: .json, or .properties; outbox.json, or with --tables changes.json, when not given. One that
    /// is there is used and left as it is
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Without an outbox: send each change of these tables. Names (TABLE or SCHEMA.TABLE) or regular expressions as
    /// table.include.list has them, with commas between
    #[arg(long, value_name = "TABLES", conflicts_with_all = ["table", "preset", "topic", "create_table", "no_poller"])]
    pub(super) tables: Option<String>,
    /// The outbox, when several tables could be it: TABLE or SCHEMA.TABLE
    #[arg(long, value_name = "TABLE")]
    pub(super) table: Option<String>,
    /// What its columns are: debezium, outbox, published_at, processed_at, sent, status, rails, modulith, masstransit,
    /// eventuate, outbox_items; found by the columns when not given
    #[arg(long, value_name = "NAME")]
    pub(super) preset: Option<String>,
    /// The topic, or ${routedByValue} and what stands around it (route.topic.replacement)
    #[arg(long, value_name = "TOPIC")]
    pub(super) topic: Option<String>,
    /// Make the table public.outbox when there is no outbox
    #[arg(long)]
    pub(super) create_table: bool,
    /// Make the replication slot now; otherwise outboxd run makes it at its first start
    #[arg(long)]
    pub(super) create_slot: bool,
    /// The role that outboxd run logs in as; made with the least rights it needs. Otherwise the one of --postgres
    #[arg(long, value_name = "ROLE")]
    pub(super) role: Option<String>,
    /// Nobody polls the table any more: what marks its rows as sent means nothing
    #[arg(long)]
    pub(super) no_poller: bool,
    /// For topics that are made: how many partitions; the brokers' default when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub(super) partitions: Option<i32>,
    /// For topics that are made: how many copies; the brokers' default when not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=32_767))]
    pub(super) replication_factor: Option<i32>,
    /// Print the statements as a script for psql, and do nothing
    #[arg(long, conflicts_with = "yes")]
    pub(super) print_sql: bool,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "print_sql")]
    pub(super) json: bool,
}

impl InitArgs {
    /// The configuration file.
    pub(super) fn file(&self) -> PathBuf {
        let usual = if self.tables.is_some() { "changes.json" } else { "outbox.json" };
        self.into.clone().unwrap_or_else(|| PathBuf::from(usual))
    }

    /// What was said that only an outbox has.
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
