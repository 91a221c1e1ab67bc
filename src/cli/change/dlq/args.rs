//! Arguments of `outboxd dlq`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::place::{Place, parse_place};
use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_time;
use crate::telemetry::{LogFormat, UnknownLogFormat};

/// Where it is kept what became of letters, unless the command line says otherwise.
const STATE_TOPIC: &str = "__outboxd-dead-letters";

#[derive(Debug, Args)]
pub(in crate::cli) struct DlqArgs {
    #[command(subcommand)]
    pub(super) command: DlqCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum DlqCommand {
    /// List dead letters, or count them by origin, reason and exception
    Ls(LsArgs),
    /// Show dead letters; their values only with --value
    Show(ShowArgs),
    /// Send dead letters to their topics again (dry run unless --execute)
    ///
    /// Each is sent once. Exits with 0 if every selected dead letter was sent, 1 if some were not.
    Replay(ReplayArgs),
    /// Mark dead letters as done without sending them (dry run unless --yes)
    Discard(DiscardArgs),
    /// Export dead letters as JSON lines
    Export(ExportArgs),
}

/// Which dead-letter topic, and how Kafka is reached.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Kafka brokers; overrides the configuration
    #[arg(long, value_name = "SERVERS")]
    pub(super) bootstrap_servers: Option<String>,
    /// The dead-letter topic; errors.deadletterqueue.topic.name of the configuration when not given
    #[arg(long, value_name = "TOPIC")]
    pub(super) from: Option<String>,
    /// The compacted topic that stores which dead letters are done; created by replay and discard
    #[arg(long, value_name = "TOPIC", default_value = STATE_TOPIC)]
    pub(super) state_topic: String,
}

/// Filters of dead letters.
#[derive(Debug, Default, Args)]
pub(super) struct FilterArgs {
    /// Only these: OFFSET, or PARTITION:OFFSET where the topic has several partitions
    #[arg(value_name = "OFFSET", value_parser = parse_place)]
    pub(super) places: Vec<Place>,
    /// Only dead letters with this reason: outboxd's reason, or Connect's stage
    #[arg(long)]
    pub(super) reason: Option<String>,
    /// Only dead letters with this exception: its class, with or without the package
    #[arg(long, value_name = "CLASS")]
    pub(super) exception: Option<String>,
    /// Only dead letters with this key, as text
    #[arg(long)]
    pub(super) key: Option<String>,
    /// Only dead letters that came from this topic
    #[arg(long)]
    pub(super) topic: Option<String>,
    /// Only dead letters from this time on: '2026-01-31 12:00:00' (UTC), or how long ago: 2h, 30m, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<i64>,
    /// Only dead letters before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) until: Option<i64>,
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Print one line per dead letter
    #[arg(long)]
    pub(super) records: bool,
    /// Include dead letters that were sent again or discarded
    #[arg(long)]
    pub(super) all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    /// The dead letters: OFFSET, or PARTITION:OFFSET where the topic has several partitions
    #[arg(value_name = "OFFSET", value_parser = parse_place, required = true)]
    pub(super) places: Vec<Place>,
    /// Show the values too
    #[arg(long)]
    pub(super) value: bool,
    /// Print one JSON object per dead letter
    #[arg(long)]
    pub(super) json: bool,
}

/// Log and limits of a run that settles dead letters.
#[derive(Debug, Args)]
pub(super) struct AuditArgs {
    /// Log one line per dead letter as json or text; by default json in a pipe, and only a progress bar on a terminal
    #[arg(long, value_name = "FORMAT", value_parser = log_format)]
    pub(super) log: Option<LogFormat>,
    /// Print the result as one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Send them to this topic instead of those they came from
    #[arg(long, value_name = "TOPIC")]
    pub(super) to: Option<String>,
    /// Send them; without it the command only prints what would be sent
    #[arg(long, visible_alias = "yes")]
    pub(super) execute: bool,
    /// Skip a record that was already sent again N times
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_replays: u32,
    /// Send at most N dead letters per second
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) rate: Option<u32>,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
}

#[derive(Debug, Args)]
pub(super) struct DiscardArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Mark them; without it the command only prints their number
    #[arg(long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) audit: AuditArgs,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) source: SourceArgs,
    #[command(flatten)]
    pub(super) filter: FilterArgs,
    /// Include dead letters that were sent again or discarded
    #[arg(long)]
    pub(super) all: bool,
    /// Write to this file, which must not exist; to standard output when not given
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
}

impl DlqCommand {
    pub(super) const fn source(&self) -> &SourceArgs {
        match self {
            Self::Ls(args) => &args.source,
            Self::Show(args) => &args.source,
            Self::Replay(args) => &args.source,
            Self::Discard(args) => &args.source,
            Self::Export(args) => &args.source,
        }
    }
}

fn log_format(text: &str) -> Result<LogFormat, UnknownLogFormat> {
    text.parse()
}
