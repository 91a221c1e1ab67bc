use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

use super::cleanup::CleanupArgs;
use super::config::ConfigCommandArgs;
use super::dlq::DlqArgs;
use super::explain::ExplainArgs;
use super::inbox::InboxArgs;
use super::init::InitArgs;
use super::migrate::MigrateArgs;
use super::relocate::MoveArgs;
use super::shell::{CompletionsArgs, ManArgs};
use super::slot::SlotArgs;
use super::status::{LagArgs, StatusArgs};
use super::tail::TailArgs;
use super::top::TopArgs;
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
    /// Relay until SIGTERM or SIGINT; drain, confirm, exit 0
    Run(RunArgs),
    /// Ask PostgreSQL and Kafka whether everything is prepared; change nothing
    ///
    /// Exits 0 when all is well, 1 on warnings, 2 on failures.
    Check(CheckArgs),
    /// Find the outbox table, write the configuration, make the publication and the role's rights
    ///
    /// Shows every statement with what takes it back, and asks. Run again it changes nothing.
    Init(Box<InitArgs>),
    /// Compare the rows of the captured tables with the records in Kafka; change nothing
    ///
    /// Is the record of every committed row there, once, in order, with the same bytes? Exits 0 if so, 1 if not (each row
    /// is named).
    Verify(VerifyArgs),
    /// Look at dead letters, send them again, or discard them: outboxd's, and those of Kafka Connect, Spring and share groups
    Dlq(Box<DlqArgs>),
    /// Inspect and release parked events of services with outboxd-inbox
    ///
    /// Reads the inbox's tables in the database of the service. Nothing is changed without --yes.
    Inbox(Box<InboxArgs>),
    /// How is it? Asks a running outboxd, or without one PostgreSQL
    ///
    /// Exits 0 when events flow, 1 when they do not or nobody reads the slot, 7 when the slot is lost.
    Status(StatusArgs),
    /// How far behind it is, and for how long the slot lives; --watch looks again and again
    Lag(LagArgs),
    /// Records as they arrive in Kafka; no consumer group hears of it
    Tail(TailArgs),
    /// What status says of one instance or several, on a screen that is drawn again each second
    Top(TopArgs),
    /// Replication slots: list, make, drop, move ahead
    Slot(SlotArgs),
    /// Take rows away that are proven to be sent; without --execute they are only counted
    Cleanup(Box<CleanupArgs>),
    /// Where is this event? Its way from the row to those who have read it; changes nothing
    ///
    /// Exits 0 when its record is in Kafka, otherwise 1.
    Explain(ExplainArgs),
    /// From a program that polls the table to outboxd, and back: nothing lost, sent twice or reordered at the seam
    Migrate(Box<MigrateArgs>),
    /// To another server or version, and after a lost slot: what was sent is known by the events' ids
    Move(Box<MoveArgs>),
    /// The configuration: what is in force and who said it, or in another form
    Config(ConfigCommandArgs),
    /// Print a script that completes commands and options in a shell
    Completions(CompletionsArgs),
    /// Print the page for man, or write one for each command
    Man(ManArgs),
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
    /// a later file wins
    #[arg(short, long = "config", value_name = "FILE", num_args = 1..)]
    pub(super) config: Vec<PathBuf>,
    /// One setting; wins over files and environment
    #[arg(short = 'X', value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

impl ConfigArgs {
    /// Whether the command line names no configuration.
    pub(super) const fn is_empty(&self) -> bool {
        self.config.is_empty() && self.set.is_empty()
    }

    /// The files, this process's environment, and the single settings.
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
    /// Serve the status page, /readyz and /metrics here: PORT or HOST:PORT, on loopback unless a host is given
    #[arg(long, value_name = "ADDR", env = "OUTBOXD_HTTP", value_parser = addr)]
    pub(super) http: Option<SocketAddr>,
    /// json or text; by default text on a terminal, json in a pipe
    #[arg(long, value_name = "FORMAT", env = "OUTBOXD_LOG_FORMAT", value_parser = log_format)]
    pub(super) log: Option<LogFormat>,
}

#[cfg(feature = "demo")]
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// End after this time: 20s, 2m; until Ctrl-C when not given
    #[arg(long = "for", value_name = "TIME", value_parser = super::time::parse_length)]
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
pub(super) struct VerifyArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Only rows written at this time or later: '2026-01-31 12:00+00', or how long ago: '2 hours'
    #[arg(long, value_name = "TIME")]
    pub(super) since: Option<String>,
    /// Only rows written before this time
    #[arg(long, value_name = "TIME")]
    pub(super) until: Option<String>,
    /// The column that says when a row was written: timestamp, timestamptz, or bigint in milliseconds.
    /// Otherwise table.field.event.timestamp, or the commit time with track_commit_timestamp=on
    #[arg(long, value_name = "COLUMN")]
    pub(super) time_column: Option<String>,
    /// The column whose value grows with each row of a key, to check the order by. Not needed where records have the
    /// header outboxd.position (outboxd.identity.headers=true)
    #[arg(long, value_name = "COLUMN")]
    pub(super) order_by: Option<String>,
    /// Only some of the rows, chosen by the hash of their id: a share (5%) or about so many (100000)
    #[arg(long, value_name = "N%|N", value_parser = sample)]
    pub(super) sample: Option<Sample>,
    /// How many seconds to wait until the relay has come to the rows that were read
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
    /// Folder for temporary files, about 200 bytes for each row; the system's when not given
    #[arg(long, value_name = "DIR")]
    pub(super) scratch: Option<PathBuf>,
    /// Print one JSON object, with every row that is not as it should be
    #[arg(long)]
    pub(super) json: bool,
}

/// How many rows are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sample {
    /// So many of 2^32.
    Share(u64),
    /// About so many.
    Rows(u64),
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
