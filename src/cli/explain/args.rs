use clap::Args;

use super::wanted::Kind;
use crate::cli::args::ConfigArgs;
use crate::cli::time::parse_time;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// The event's id, or the key of events, or the LSN of a commit
    #[arg(value_name = "ID|KEY|LSN")]
    pub(super) what: String,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// It is an id, and not a key too
    #[arg(long, conflicts_with = "key")]
    id: bool,
    /// It is a key, and not an id too
    #[arg(long)]
    key: bool,
    /// A consumer group: has it come past the record? May be given several times
    #[arg(long = "group", value_name = "GROUP")]
    pub(super) groups: Vec<String>,
    /// Look in this topic, instead of those that the configuration leads to. May be given several times
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Only records from this time on: '2026-01-31 12:00:00' (UTC), or how long ago: 2h. Otherwise from when the event was made, if that is known, or from the front
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(super) since: Option<i64>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl ExplainArgs {
    pub(super) const fn kind(&self) -> Kind {
        match (self.id, self.key) {
            (true, _) => Kind::Id,
            (_, true) => Kind::Key,
            (false, false) => Kind::Any,
        }
    }
}
