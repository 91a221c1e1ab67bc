use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::args::ConfigArgs;
use crate::cli::time::parse_time;
use crate::cli::typed::quoted;

#[derive(Debug, Args)]
pub(in crate::cli) struct MoveArgs {
    #[command(subcommand)]
    pub(super) command: MoveCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum MoveCommand {
    /// Which rows of the table are in Kafka, and what cut-over would do. Changes nothing
    ///
    /// Exits 1 if cut-over would refuse.
    Plan(PlanArgs),
    /// Note which rows are in Kafka, so that the first start on this server sends the others and nothing twice
    CutOver(CutOverArgs),
    /// Is each row in Kafka, and only once? Changes nothing
    ///
    /// Exits 0 if so, 1 if not (rows are named).
    Verify(VerifyArgs),
}

/// Where the outbox is now, and where its records are.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// The configuration of the server that is left: its relay must have been stopped, and its rows must be here
    #[arg(long, value_name = "FILE")]
    pub(super) from: Option<PathBuf>,
    /// A condition, in SQL, that is true only of rows that were sent long ago: "created_at < '2026-11-01'". Needed for rows that
    /// are older than what the topics still have
    #[arg(long, value_name = "CONDITION")]
    pub(super) sent: Option<String>,
    /// Look in this topic too: a record that is there counts as if it were in the row's own topic. May be given several times
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Only records from this time on: '2026-01-31 12:00:00' (UTC), or how long ago: 2h. Otherwise topics are read from the front
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<i64>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl TargetArgs {
    /// A text whose commands say `TARGET`, or `-c FILE` when they are about the configuration alone, with what was given.
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
    /// The column by which rows that were not sent are sorted; otherwise by the transactions that have written them
    #[arg(long, value_name = "COLUMN")]
    pub(super) order_by: Option<String>,
    /// Where to write what the first start must be told
    #[arg(long, value_name = "FILE", default_value = "outboxd-move.properties")]
    pub(super) into: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// How many seconds to wait until the relay has sent the rows that are there
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
}
