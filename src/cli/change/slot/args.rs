//! Arguments of `outboxd slot`.

use clap::{Args, Subcommand};

use crate::cli::args::ConfigArgs;
use crate::wal::Lsn;

#[derive(Debug, Args)]
pub(in crate::cli) struct SlotArgs {
    #[command(subcommand)]
    pub(super) command: SlotCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum SlotCommand {
    /// List replication slots and the WAL each retains
    Ls(LsArgs),
    /// Create the slot of the configuration; its publication must exist
    Create(TargetArgs),
    /// Drop a slot, after showing which rows are lost
    Drop(DropArgs),
    /// Advance a slot, after showing which rows are skipped
    Advance(AdvanceArgs),
}

#[derive(Debug, Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// Which slot.
#[derive(Debug, Args)]
pub(super) struct TargetArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Slot; default: slot.name of the configuration
    #[arg(long, value_name = "NAME")]
    pub(super) slot: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct DropArgs {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct AdvanceArgs {
    /// Target LSN: the end of the last transaction to skip
    #[arg(value_name = "LSN", value_parser = lsn)]
    pub(super) to: Lsn,
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
}

fn lsn(text: &str) -> Result<Lsn, String> {
    text.parse().map_err(|_| format!("{text:?} is not an LSN, such as 0/1A2B3C8"))
}
