//! Arguments of `outboxd signal`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_length;

#[derive(Debug, Args)]
pub(in crate::cli) struct SignalArgs {
    #[command(subcommand)]
    pub(super) command: SignalCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SignalCommand {
    /// Send the rows of captured tables again
    ///
    /// The rows are read in chunks beside the stream, and sent as change events with op r.
    Snapshot(SnapshotArgs),
    /// Stop the incremental snapshot of these tables, or of all
    Stop(StopArgs),
    /// Pause the incremental snapshot
    Pause(SendArgs),
    /// Resume the incremental snapshot
    Resume(SendArgs),
    /// Write a message to the relay's log
    Log(LogArgs),
}

#[derive(Debug, Args)]
pub(super) struct SnapshotArgs {
    /// Tables: SCHEMA.TABLE, or regular expressions such as 'public\..*'
    #[arg(value_name = "TABLE", required = true)]
    pub(super) tables: Vec<String>,
    /// Send only rows that match this SQL condition (one table only)
    #[arg(long, value_name = "SQL", conflicts_with = "blocking")]
    pub(super) filter: Option<String>,
    /// Read all rows in one transaction while the stream waits
    #[arg(long)]
    pub(super) blocking: bool,
    #[command(flatten)]
    pub(super) send: SendArgs,
}

#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Tables: SCHEMA.TABLE, or regular expressions; default: all
    #[arg(value_name = "TABLE")]
    pub(super) tables: Vec<String>,
    #[command(flatten)]
    pub(super) send: SendArgs,
}

#[derive(Debug, Args)]
pub(super) struct LogArgs {
    #[arg(value_name = "MESSAGE")]
    pub(super) message: String,
    #[command(flatten)]
    pub(super) send: SendArgs,
}

#[derive(Debug, Args)]
pub(super) struct SendArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Id of the signal, which notifications repeat; default: random
    #[arg(long, value_name = "ID")]
    pub(super) id: Option<String>,
    /// Wait for the relay for this time; 0s does not wait
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_length)]
    pub(super) wait: Duration,
    /// Show the signal, and do not write it
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

impl SignalCommand {
    pub(super) const fn send(&self) -> &SendArgs {
        match self {
            Self::Snapshot(args) => &args.send,
            Self::Stop(args) => &args.send,
            Self::Pause(args) | Self::Resume(args) => args,
            Self::Log(args) => &args.send,
        }
    }

    /// Returns the type of the signal.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Snapshot(_) => "execute-snapshot",
            Self::Stop(_) => "stop-snapshot",
            Self::Pause(_) => "pause-snapshot",
            Self::Resume(_) => "resume-snapshot",
            Self::Log(_) => "log",
        }
    }

    /// Returns the names of tables and the expressions for them.
    pub(super) fn tables(&self) -> &[String] {
        match self {
            Self::Snapshot(args) => &args.tables,
            Self::Stop(args) => &args.tables,
            Self::Pause(_) | Self::Resume(_) | Self::Log(_) => &[],
        }
    }
}
