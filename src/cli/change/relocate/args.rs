//! Arguments of `outboxd move`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_time;
use crate::cli::shell::typed::quoted;

#[derive(Debug, Args)]
pub(in crate::cli) struct MoveArgs {
    #[command(subcommand)]
    pub(super) command: MoveCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum MoveCommand {
    /// Show which rows are in Kafka and what cut-over would do; change nothing
    ///
    /// Exits with 1 if cut-over would refuse.
    Plan(PlanArgs),
    /// Record which rows are in Kafka; the first start here sends the others
    CutOver(CutOverArgs),
    /// Verify that each row is in Kafka exactly once; change nothing
    ///
    /// Exits with 0 if so; otherwise with 1, and names the rows.
    Verify(VerifyArgs),
}

/// Where the outbox is now, and where its records are.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Configuration of the old server: its relay must be stopped, and its rows must exist here
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
    /// SQL condition that is true only for rows sent long ago: "created_at < '2026-11-01'". Needed for rows that are older
    /// than the records in the topics
    #[arg(long, value_name = "CONDITION")]
    pub(super) sent: Option<String>,
    /// Search this topic too: its records count as records of the row's own topic. Repeatable
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Only records from this time on: '2026-01-31 12:00:00' (UTC), or how long ago: 2h. Default: from the beginning
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<i64>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl TargetArgs {
    /// Returns a text whose commands contain `TARGET`, or `-c FILE` when they are about the configuration
    /// alone, with what was given.
    pub(super) fn in_commands(&self, text: &str) -> String {
        let from = self.from.iter().map(|file| format!(" --from {}", quoted(&file.display().to_string())));
        let sent = self.sent.iter().map(|sent| format!(" --sent {}", quoted(sent)));
        let topics = self.topics.iter().map(|topic| format!(" --topic {}", quoted(topic)));
        let given: String = from.chain(sent).chain(topics).collect();
        self.config.in_commands(&text.replace("TARGET", &format!("-c FILE{given}")))
    }
}

#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
}

#[derive(Debug, Args)]
pub(super) struct CutOverArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Column that orders unsent rows; default: by commit
    #[arg(long, value_name = "COLUMN")]
    pub(super) order_by: Option<String>,
    /// File for the options of the first start
    #[arg(long, value_name = "FILE", default_value = "outboxd-move.properties")]
    pub(super) into: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Seconds to wait until the relay has sent the existing rows
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
}
