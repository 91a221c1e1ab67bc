//! Arguments of `outboxd config`.

use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigCommandArgs {
    #[command(subcommand)]
    pub(super) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Show the effective configuration, with secrets masked
    Show(ShowArgs),
    /// Convert the configuration; secrets become placeholders for variables
    Convert(ConvertArgs),
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Show the source of each value
    #[arg(long)]
    pub(super) sources: bool,
    /// Include defaults, and show the source of each value
    #[arg(long)]
    pub(super) all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ConvertArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Target format
    #[arg(long, value_enum, value_name = "FORM")]
    pub(super) to: Form,
}

/// The forms that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// JSON for Kafka Connect's REST API
    Json,
    /// A file for Connect in standalone mode
    Properties,
    /// Debezium Server's application.properties
    Server,
    /// Environment variables for docker --env-file
    Env,
}
