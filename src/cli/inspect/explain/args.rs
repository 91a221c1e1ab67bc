//! Arguments of `outboxd explain`.

use clap::Args;

use super::wanted::Kind;
use crate::cli::args::ConfigArgs;
use crate::cli::inspect::status::instance;
use crate::cli::shell::time::parse_time;
use crate::http::Instance;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExplainArgs {
    /// The event's id, or the key of events, or the LSN of a commit
    #[arg(value_name = "ID|KEY|LSN")]
    pub(super) what: String,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Status port of the running relay, whose topics are used where a transform renames topics
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance)]
    pub(super) http: Option<Instance>,
    /// Search by id only
    #[arg(long, conflicts_with = "key")]
    id: bool,
    /// Search by key only
    #[arg(long)]
    key: bool,
    /// Report whether this consumer group has consumed the record; repeatable
    #[arg(long = "group", value_name = "GROUP")]
    pub(super) groups: Vec<String>,
    /// Search this topic instead of those of the configuration; repeatable
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(super) topics: Vec<String>,
    /// Only records from this time on: '2026-01-31 12:00:00' (UTC), or how long ago: 2h. Default: the time of the event if it is known, else the beginning
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
