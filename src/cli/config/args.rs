use clap::{Args, Subcommand, ValueEnum};

use crate::cli::args::ConfigArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct ConfigCommandArgs {
    #[command(subcommand)]
    pub(super) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// What is in force of files, environment and -X. Secrets are masked
    Show(ShowArgs),
    /// The same configuration in another form. A secret becomes a placeholder for a variable
    Convert(ConvertArgs),
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Show where each value was said
    #[arg(long)]
    pub(super) sources: bool,
    /// Show also what is in force because nobody says otherwise, and where each value was said
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
    /// Into what
    #[arg(long, value_enum, value_name = "FORM")]
    pub(super) to: Form,
}

/// The forms that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// What is posted to Kafka Connect
    Json,
    /// A file for Connect in standalone mode
    Properties,
    /// Debezium Server's application.properties
    Server,
    /// Variables, one a line, as docker --env-file reads them
    Env,
}
