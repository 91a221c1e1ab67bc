//! Arguments of `outboxd tail`.

use clap::Args;

use crate::cli::args::ConfigArgs;
use crate::cli::inspect::status::instance;
use crate::cli::shell::time::parse_time;
use crate::http::Instance;
use crate::http_client::Address;

#[derive(Debug, Args)]
pub(in crate::cli) struct TailArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Status port of the running relay, whose topics are used where a transform renames topics
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance)]
    pub(super) http: Option<Instance>,
    /// Kafka brokers; overrides the configuration. Needs --topic
    #[arg(long, value_name = "SERVERS", requires = "topics")]
    pub(super) bootstrap_servers: Option<String>,
    /// Schema registry of keys and values; overrides the configuration
    #[arg(long, value_name = "URL", value_parser = address)]
    pub(super) schema_registry: Option<Address>,
    /// Only this topic; default: every topic of the configuration, also later ones. Repeatable
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Only records with this key, as text
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Only records whose header eventType, event_type or type says this
    #[arg(long = "type", value_name = "TYPE")]
    pub(super) event_type: Option<String>,
    /// Start with records of this time: '2026-01-31 12:00:00' (UTC), or how long ago: 2h. Default: with the next record
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<i64>,
    /// Stop after N records; default: run until Ctrl-C
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) number: Option<u64>,
    /// Show the values too
    #[arg(long)]
    pub(super) value: bool,
    /// Print one JSON object a line
    #[arg(long)]
    pub(super) json: bool,
}

fn address(text: &str) -> Result<Address, &'static str> {
    Address::parse(text).ok_or("it is no URL; write http://HOST:PORT")
}
