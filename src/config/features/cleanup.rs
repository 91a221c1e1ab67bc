//! `outboxd.cleanup.*`: deletion of rows that have been sent.

use std::time::Duration;

use crate::cleanup::{ArchiveFormat, ArchiveTo, CleanupOptions, Partitions};
use crate::config::error::Problem;
use crate::config::read::Reader;

const ENABLE: &str = "outboxd.cleanup.enable";
const KEEP: &str = "outboxd.cleanup.keep.ms";
const COLUMN: &str = "outboxd.cleanup.time.column";
const FOLDER: &str = "outboxd.cleanup.archive.folder";
const TABLE: &str = "outboxd.cleanup.archive.table";
const FORMAT: &str = "outboxd.cleanup.archive.format";

/// Reads the options. With `sends_changes` rows become change events, and cleanup is refused: each deletion would be an
/// event too.
pub(in crate::config) fn options(reader: &mut Reader<'_>, sends_changes: bool) -> CleanupOptions {
    let enabled = reader.boolean(ENABLE, false);
    if let Some(setting) = reader.settings.get(ENABLE).filter(|_| enabled && sends_changes) {
        let reason = "it deletes rows of an outbox that has one EventRouter alone; here \
                      the deletion of a row is an event";
        let fix = format!("remove {ENABLE}, or give the outbox an outboxd of its own");
        reader.problems.push(Problem::refused(setting, reason, fix));
    }
    #[cfg(not(feature = "parquet"))]
    if let Some(setting) = reader.settings.get(FORMAT).filter(|setting| setting.value == "parquet") {
        let reason = crate::error::not_built("Parquet", "parquet");
        reader.problems.push(Problem::refused(setting, reason, format!("{FORMAT}=ndjson")));
    }
    let partitions = [("rows", Partitions::Rows), ("drop", Partitions::Drop), ("detach", Partitions::Detach)];
    let formats = [("ndjson", ArchiveFormat::Ndjson), ("parquet", ArchiveFormat::Parquet)];
    let before = [("keep", false), ("delete", true)];
    let options = CleanupOptions {
        enabled,
        interval: reader.millis("outboxd.cleanup.interval.ms", 100, Duration::from_secs(60)),
        before_slot: reader.choice("outboxd.cleanup.before.slot", &before, false),
        keep: reader.millis(KEEP, 0, Duration::ZERO),
        time_column: reader.filled(COLUMN).map(str::to_owned),
        archive: archive(reader),
        archive_format: reader.choice(FORMAT, &formats, ArchiveFormat::Ndjson),
        partitions: reader.choice("outboxd.cleanup.partitions", &partitions, Partitions::Rows),
        partitions_ahead: reader.integer("outboxd.cleanup.partitions.ahead", 0..=366, 0),
        batch_rows: reader.integer("outboxd.cleanup.batch.rows", 1..=100_000, 1_000),
        batch_pause: reader.millis("outboxd.cleanup.batch.pause.ms", 0, Duration::from_millis(100)),
        lock_timeout: reader.millis("outboxd.cleanup.lock.timeout.ms", 1, Duration::from_secs(1)),
        statement_timeout: reader.millis("outboxd.cleanup.statement.timeout.ms", 1, Duration::from_secs(30)),
        lag_bytes_max: reader.integer("outboxd.cleanup.pause.lag.bytes", 0..=1 << 60, 64 << 20),
        transaction_age_max: reader.millis(
            "outboxd.cleanup.pause.transaction.age.ms",
            0,
            Duration::from_secs(300),
        ),
    };
    if !options.keep.is_zero() && options.time_column.is_none() {
        reader.missing(COLUMN, "outboxd.cleanup.keep.ms needs the age of a row", &[(COLUMN, "created_at")]);
    }
    options
}

fn archive(reader: &mut Reader<'_>) -> Option<ArchiveTo> {
    let (folder, table) = (reader.path(FOLDER), reader.filled(TABLE).map(str::to_owned));
    if let Some(setting) = reader.settings.get(TABLE).filter(|_| folder.is_some() && table.is_some()) {
        reader.invalid(setting, "outboxd.cleanup.archive.folder is set too, and only one of the two may be");
    }
    table.map(ArchiveTo::Table).or(folder.map(ArchiveTo::Folder))
}
