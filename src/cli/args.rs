//! Command line of outboxd.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::change::cleanup::CleanupArgs;
use super::change::dlq::DlqArgs;
use super::change::inbox::InboxArgs;
use super::change::init::InitArgs;
use super::change::migrate::MigrateArgs;
use super::change::relocate::MoveArgs;
use super::change::signal::SignalArgs;
use super::change::slot::SlotArgs;
use super::inspect::config::ConfigCommandArgs;
use super::inspect::debug::DebugArgs;
use super::inspect::explain::ExplainArgs;
use super::inspect::status::{LagArgs, StatusArgs};
use super::inspect::tail::TailArgs;
use super::inspect::top::TopArgs;
use super::shell::completions::{CompletionsArgs, ManArgs};
use crate::config::Sources;
use crate::http::{self, InvalidAddress};
use crate::telemetry::{LogFormat, UnknownLogFormat};

/// A Debezium-compatible PostgreSQL connector for Kafka: an outbox or any table, byte for byte
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 110)]
pub(super) struct Args {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Stream changes until SIGTERM or SIGINT, then drain and confirm
    Run(RunArgs),
    /// Check that PostgreSQL and Kafka are prepared; change nothing
    ///
    /// Exits with 0 if no check fails, 1 on warnings, 2 on failures.
    Check(CheckArgs),
    /// Set up an outbox: configuration, publication, role's rights
    ///
    /// Shows every statement with the statement that undoes it, and asks first. A second run changes nothing.
    Init(Box<InitArgs>),
    /// Compare committed rows with the records in Kafka; change nothing
    ///
    /// Exits with 0 if the record of every committed row exists once, in order, with the same bytes; otherwise with 1, and
    /// names each row.
    Verify(VerifyArgs),
    /// Show, replay or discard dead letters
    ///
    /// Reads the dead letters of outboxd, Kafka Connect, Spring Kafka and share groups.
    Dlq(Box<DlqArgs>),
    /// Inspect and release parked events of services with outboxd-inbox
    ///
    /// Reads the inbox's tables in the database of the service. Nothing is changed without --yes.
    Inbox(Box<InboxArgs>),
    /// Show the state of the relay, or of its slot if none is running
    ///
    /// Exits with 0 when events flow, 1 when they do not or no relay reads the slot, 7 when the slot is lost.
    Status(StatusArgs),
    /// Show replication lag and the slot's remaining WAL; --watch repeats
    Lag(LagArgs),
    /// Print records as they arrive, without joining a consumer group
    Tail(TailArgs),
    /// Live dashboard of one or more instances
    Top(TopArgs),
    /// Request a snapshot from a running relay, or pause or stop one
    Signal(Box<SignalArgs>),
    /// List, create, drop or advance replication slots
    Slot(SlotArgs),
    /// Delete outbox rows that have been sent (dry run unless --execute)
    Cleanup(Box<CleanupArgs>),
    /// Trace one event from its row to its consumers; change nothing
    ///
    /// Exits with 0 if its record is in Kafka, otherwise with 1.
    Explain(ExplainArgs),
    /// Migrate from a polling relay, or back, without loss or repeats
    Migrate(Box<MigrateArgs>),
    /// Move to another server or version, or recover from a lost slot
    Move(Box<MoveArgs>),
    /// Show the effective configuration and its sources, or convert it
    Config(ConfigCommandArgs),
    /// Collect the facts for a bug report, without secrets
    Debug(DebugArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Print the man page, or write one for each command
    Man(ManArgs),
    /// Run a demo with a throwaway PostgreSQL and an in-process broker
    #[cfg(feature = "demo")]
    Demo(DemoArgs),
    /// Check that a running outboxd is ready (for container health checks)
    #[command(hide = true)]
    Health(HealthArgs),
}

/// Where the configuration comes from.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// The connector's JSON, YAML (KafkaConnector, DebeziumServer) or .properties; FILE#NAME is one of several;
    /// a later file wins
    #[arg(short, long = "config", value_name = "FILE", num_args = 1..)]
    pub(super) config: Vec<PathBuf>,
    /// Set one option; overrides files and environment
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

impl ConfigArgs {
    /// Returns whether the command line names no configuration.
    pub(super) const fn is_empty(&self) -> bool {
        self.config.is_empty() && self.set.is_empty()
    }

    /// Returns the sources: the files, this process's environment, and the single settings.
    pub(super) fn sources(&self) -> Sources {
        Sources {
            files: self.config.clone(),
            environment: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            overrides: self.set.clone(),
        }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Serve the status page, /readyz and /metrics at PORT or HOST:PORT (loopback unless a host is given)
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = addr)]
    pub(super) http: Option<SocketAddr>,
    /// Log format, json or text; default: text on a terminal, json in a pipe
    #[arg(long, value_name = "FORMAT", env = "OUTBOXD_LOG_FORMAT", value_parser = log_format)]
    pub(super) log: Option<LogFormat>,
}

#[cfg(feature = "demo")]
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// Stop after this time (20s, 2m); default: run until Ctrl-C
    #[arg(long = "for", value_name = "TIME", value_parser = super::shell::time::parse_length)]
    pub(super) time: Option<std::time::Duration>,
    /// Use this server (wal_level=logical) instead of a throwaway one; the demo drops its objects at the end
    #[arg(long, value_name = "URL")]
    pub(super) postgres: Option<String>,
    /// Use these brokers instead of the one in this process; the demo's topic is deleted at the end
    #[arg(long, value_name = "SERVERS")]
    pub(super) kafka: Option<String>,
    /// Transactions per second
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rate: u32,
    /// Serve the status page at PORT or HOST:PORT; default: a free port on loopback
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
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Only rows written at this time or later: '2026-01-31 12:00+00', or how long ago: '2 hours'
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,
    /// Only rows written before this time
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<String>,
    /// Column with the time of a row: timestamp, timestamptz, or bigint in milliseconds. Default:
    /// table.field.event.timestamp, or the commit time with track_commit_timestamp=on
    #[arg(long, value_name = "COLUMN")]
    pub(super) time_column: Option<String>,
    /// The column whose value grows with each row of a key, to check the order by. Not needed where records have the
    /// header outboxd.position (outboxd.identity.headers=true)
    #[arg(long, value_name = "COLUMN")]
    pub(super) order_by: Option<String>,
    /// Compare a sample of the rows, chosen by the hash of their id: a share (5%) or an approximate number (100000)
    #[arg(long, value_name = "N%|N", value_parser = sample)]
    pub(super) sample: Option<Sample>,
    /// Seconds to wait until the relay has reached the rows that were read
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
    /// Folder for temporary files, about 200 bytes per row; default: the system's
    #[arg(long, value_name = "DIR")]
    pub(super) scratch: Option<PathBuf>,
    /// Print one JSON object with every row that differs
    #[arg(long)]
    pub(super) json: bool,
}

/// Share of the rows that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// So many of 2^32.
    Share(u64),
    /// About so many.
    Rows(u64),
}

#[derive(Debug, clap::Args)]
pub(super) struct HealthArgs {
    /// Address of the running outboxd's status port
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = addr)]
    pub(super) http: SocketAddr,
}

fn addr(text: &str) -> Result<SocketAddr, InvalidAddress> {
    http::parse_addr(text)
}

fn log_format(text: &str) -> Result<LogFormat, UnknownLogFormat> {
    text.parse()
}

fn sample(text: &str) -> Result<Sample, String> {
    let refused = || format!("{text:?} is neither a share, such as 5%, nor a number of rows");
    let Some(percent) = text.strip_suffix('%') else {
        return text.parse().ok().filter(|rows| *rows > 0).map(Sample::Rows).ok_or_else(refused);
    };
    // In millionths of a percent: without floating point, and fine enough.
    let (whole, part) = percent.split_once('.').unwrap_or((percent, ""));
    let digits = format!("{whole}{part:0<6}");
    let plain = part.len() <= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()) && !whole.is_empty();
    let millionths =
        digits.parse::<u64>().ok().filter(|millionths| plain && (1..=100_000_000).contains(millionths));
    let share = millionths.ok_or_else(refused)?.saturating_mul(1 << 32) / 100_000_000;
    Ok(Sample::Share(share.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_share_or_a_number() {
        let share = |text: &str| sample(text).map_err(drop);
        let cases = [
            ("100%", Ok(Sample::Share(1 << 32))),
            ("50%", Ok(Sample::Share(1 << 31))),
            ("0.5%", Ok(Sample::Share(21_474_836))),
            ("0.000001%", Ok(Sample::Share(42))),
            ("1000", Ok(Sample::Rows(1000))),
            ("0", Err(())),
            ("0%", Err(())),
            ("101%", Err(())),
            ("-1%", Err(())),
            (".5%", Err(())),
            ("0.0000001%", Err(())),
            ("%", Err(())),
            ("many", Err(())),
        ];
        for (text, expected) in cases {
            assert_eq!(share(text), expected, "{text}");
        }
    }
}
