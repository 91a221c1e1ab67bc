//! Arguments of `outboxd status` and `lag`.

use std::time::Duration;

use clap::Args;

use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_pause;
use crate::http::{Instance, InvalidInstance};

/// Address of a running outboxd.
#[derive(Debug, Args)]
pub(in crate::cli) struct InstanceArgs {
    /// Status port of a running outboxd (PORT, HOST:PORT or a URL); default: query PostgreSQL
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = instance)]
    pub(super) http: Option<Instance>,
    #[command(flatten)]
    pub(in crate::cli) config: ConfigArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StatusArgs {
    #[command(flatten)]
    pub(super) whom: InstanceArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct LagArgs {
    #[command(flatten)]
    pub(super) whom: InstanceArgs,
    /// Repeat until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
    /// Interval: 500ms, 2s, 1m
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_pause)]
    pub(super) every: Duration,
    /// Print one JSON object per interval
    #[arg(long)]
    pub(super) json: bool,
}

pub(in crate::cli) fn instance(text: &str) -> Result<Instance, InvalidInstance> {
    Instance::parse(text)
}
