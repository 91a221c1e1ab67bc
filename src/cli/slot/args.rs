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
    /// List the server's replication slots, with what each holds back
    Ls(LsArgs),
    /// Make the slot of the configuration. The publication must be there: an older slot cannot be read
    Create(TargetArgs),
    /// Drop a slot. Says what would not be sent any more, and asks
    Drop(DropArgs),
    /// Move a slot ahead. Says what would not be sent, and asks
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
    /// The slot; slot.name of the configuration when not given
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
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct AdvanceArgs {
    /// Where it is to stand: the end of the last transaction that is not to be sent
    #[arg(value_name = "LSN", value_parser = lsn)]
    pub(super) to: Lsn,
    #[command(flatten)]
    pub(super) target: TargetArgs,
    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,
}

fn lsn(text: &str) -> Result<Lsn, String> {
    text.parse().map_err(|_| format!("{text:?} is not an LSN, such as 0/1A2B3C8"))
}
