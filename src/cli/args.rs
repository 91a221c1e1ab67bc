use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::http::{self, InvalidAddress};
use crate::telemetry::{LogFormat, UnknownLogFormat};

/// Streams a PostgreSQL outbox table to Kafka, byte for byte as Debezium's EventRouter does
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 110)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Relay until SIGTERM or SIGINT; drain, confirm, exit 0
    Run(RunArgs),
    /// Ask PostgreSQL and Kafka whether everything is prepared; change nothing
    ///
    /// Exits 0 when all is well, 1 on warnings, 2 on failures.
    Check(CheckArgs),
    /// A whole system on this machine, nothing to install: PostgreSQL, a broker, the relay, and orders to watch
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Ask a running outboxd whether it is ready (for container health checks)
    #[command(hide = true)]
    Health(HealthArgs),
}

/// Where the configuration comes from.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The connector's JSON, a Connect .properties file, or Debezium Server's application.properties;
    /// of several, the later wins
    #[arg(short, long = "config", value_name = "FILE", num_args = 1..)]
    pub(super) config: Vec<PathBuf>,
    /// One setting; wins over files and environment
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Serve /livez, /readyz and /metrics here: PORT or HOST:PORT, on loopback unless a host is given
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = addr)]
    pub(super) http: Option<SocketAddr>,
    /// json or text; text on a terminal, json in a pipe
    #[arg(long, value_name = "FORMAT", env = "OUTBOXD_LOG_FORMAT", value_parser = log_format)]
    pub(super) log: Option<LogFormat>,
}

#[cfg(feature = "demo")]
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// End after this time: 20s, 2m; until Ctrl-C when not given
    #[arg(long = "for", value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(super) time: Option<std::time::Duration>,
    /// Use this server (wal_level=logical) instead of a throwaway one; what the demo makes there is dropped at the end
    #[arg(long, value_name = "URL")]
    pub(super) postgres: Option<String>,
    /// Use these brokers instead of the one in this process; the demo's topic is deleted at the end
    #[arg(long, value_name = "SERVERS")]
    pub(super) kafka: Option<String>,
    /// How many transactions a second the shop makes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rate: u32,
    /// Serve the status page here: PORT or HOST:PORT; a free port of loopback when not given
    #[arg(long, value_name = "ADDR", value_parser = addr)]
    pub(super) http: Option<SocketAddr>,
    /// No colours, as with NO_COLOR
    #[arg(long)]
    pub(super) no_color: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Print one JSON object instead of lines
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct HealthArgs {
    /// Where the running outboxd serves its status
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = addr)]
    pub(super) http: SocketAddr,
}

fn addr(text: &str) -> Result<SocketAddr, InvalidAddress> {
    http::parse_addr(text)
}

fn log_format(text: &str) -> Result<LogFormat, UnknownLogFormat> {
    text.parse()
}
