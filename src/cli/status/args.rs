use std::time::Duration;

use clap::Args;

use crate::cli::args::ConfigArgs;
use crate::cli::time::parse_pause;
use crate::http::{Instance, InvalidInstance};

/// Whom to ask.
#[derive(Debug, Args)]
pub(in crate::cli) struct WhomArgs {
    /// The status port of a running outboxd: PORT, HOST:PORT or a URL. Without it PostgreSQL is asked
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance)]
    pub(super) http: Option<Instance>,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    pub(super) whom: WhomArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LagArgs {
    #[command(flatten)]
    pub(super) whom: WhomArgs,
    /// Look again and again, until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// How long to wait between two looks: 500ms, 2s, 1m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_pause)]
    pub(super) every: Duration,
    /// Print a JSON object for each look
    #[arg(long)]
    pub(super) json: bool,
}

pub(in crate::cli) fn instance(text: &str) -> Result<Instance, InvalidInstance> {
    Instance::parse(text)
}
