//! Arguments of `outboxd cleanup`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::cleanup::{ArchiveFormat, ArchiveTo, CleanupOptions, Partitions};
use crate::cli::args::ConfigArgs;
use crate::cli::shell::time::parse_length;

#[derive(Debug, Args)]
pub(in crate::cli) struct CleanupArgs {
    #[command(flatten)]
    pub(super) config: ConfigArgs,
    /// Delete the rows; without it they are only counted
    #[arg(long)]
    pub(super) execute: bool,
    /// Only rows older than this, by --time-column: 12h, 30d (outboxd.cleanup.keep.ms)
    #[arg(long, value_name = "TIME", value_parser = parse_length)]
    pub(super) older_than: Option<Duration>,
    /// Column with the time of a row (outboxd.cleanup.time.column)
    #[arg(long, value_name = "COLUMN")]
    pub(super) time_column: Option<String>,
    /// Move the rows into this table, which has the columns of the outbox (outboxd.cleanup.archive.table)
    #[arg(long, value_name = "TABLE")]
    pub(super) archive_table: Option<String>,
    /// Write the rows into files in this folder first (outboxd.cleanup.archive.folder)
    #[arg(long, value_name = "DIR", conflicts_with = "archive_table")]
    pub(super) archive_folder: Option<PathBuf>,
    /// Format of the files (outboxd.cleanup.archive.format)
    #[arg(long, value_name = "FORMAT", conflicts_with = "archive_table")]
    pub(super) archive_format: Option<Format>,
    /// Action for partitions that have ended and are sent (outboxd.cleanup.partitions)
    #[arg(long, value_name = "HOW")]
    partitions: Option<How>,
    /// Number of partitions to create in advance (outboxd.cleanup.partitions.ahead)
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(0..=366))]
    partitions_ahead: Option<u16>,
    /// Include rows that the slot never sent: older than the slot, or skipped with outboxd.position.accept
    #[arg(long)]
    pub(super) also_before_slot: bool,
    /// Seconds to wait until the relay has confirmed the current end of the WAL
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) wait: u64,
    /// Do not ask for confirmation
    #[arg(long)]
    pub(super) yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

/// What becomes of partitions.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum How {
    /// Their rows are deleted, and they stay
    Rows,
    /// They are dropped
    Drop,
    /// They are detached, and stay as tables
    Detach,
}

/// What the files of an archive are.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Format {
    /// A JSON object in each line
    Ndjson,
    /// Parquet, with the types of the columns
    Parquet,
}

impl CleanupArgs {
    /// Returns the options of the configuration, overridden by the command line.
    pub(super) fn options(&self, configured: &CleanupOptions) -> CleanupOptions {
        let table = self.archive_table.clone().map(ArchiveTo::Table);
        let folder = self.archive_folder.clone().map(ArchiveTo::Folder);
        CleanupOptions {
            keep: self.older_than.unwrap_or(configured.keep),
            time_column: self.time_column.clone().or_else(|| configured.time_column.clone()),
            archive: table.or(folder).or_else(|| configured.archive.clone()),
            archive_format: self.archive_format.map_or(configured.archive_format, |format| match format {
                Format::Ndjson => ArchiveFormat::Ndjson,
                Format::Parquet => ArchiveFormat::Parquet,
            }),
            partitions: self.partitions.map_or(configured.partitions, |how| match how {
                How::Rows => Partitions::Rows,
                How::Drop => Partitions::Drop,
                How::Detach => Partitions::Detach,
            }),
            partitions_ahead: self.partitions_ahead.map_or(configured.partitions_ahead, usize::from),
            before_slot: self.also_before_slot || configured.before_slot,
            ..configured.clone()
        }
    }
}
