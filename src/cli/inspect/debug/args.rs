//! Arguments of `outboxd debug`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::cli::inspect::status::InstanceArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct DebugArgs {
    #[command(subcommand)]
    pub(super) command: DebugCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum DebugCommand {
    /// Collect the facts for a bug report, without secrets
    ///
    /// Writes a folder with the masked configuration, the findings of check, the status, the catalog and the last lines of
    /// the log. It contains names of tables and topics, and no rows.
    Bundle(BundleArgs),
}

#[derive(Debug, Args)]
pub(super) struct BundleArgs {
    #[command(flatten)]
    pub(super) whom: InstanceArgs,
    /// Log file of the relay; its last 2,000 lines are included
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,
    /// New folder; default: outboxd-bundle-TIME in the current one
    #[arg(long, value_name = "FOLDER")]
    pub(super) into: Option<PathBuf>,
}
