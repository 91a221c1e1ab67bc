//! Errors of `outboxd cleanup`.

use std::io::ErrorKind;
use std::path::PathBuf;

use crate::cleanup::{ArchiveTo, CleanupOptions, ConvertError, Doubt, Leaf, PassError};
use crate::cli::run::assemble::AssembleError;
use crate::error::{Class, Diagnose, Diagnosis, Exit};
use crate::relay::{CleanupObstacle, OnlyCopies};
use crate::wal::Lsn;
use crate::{kafka, postgres, relay};

/// Reasons why no rows, or not all, were deleted.
#[derive(Debug, thiserror::Error)]
pub(super) enum CleanupError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Relay(Box<relay::Error>),
    #[error(transparent)]
    CleanupObstacle(#[from] CleanupObstacle),
    #[error("what is in table {table} need not be in the stream")]
    Doubtful { table: String, source: Doubt },
    #[error(transparent)]
    Captured(Doubt),
    #[error("{warning}")]
    Suspected { warning: String },
    #[error(transparent)]
    OnlyCopies(#[from] OnlyCopies),
    #[error(transparent)]
    Kafka(kafka::Error),
    #[error("there is no replication slot {slot:?}: which rows were sent is unknown; {next}")]
    NoSlot { slot: String, next: String, fix: Option<String> },
    #[error(
        "slot {slot:?} has confirmed {confirmed} after {seconds} s, and what is in the table lies in front of {wanted}"
    )]
    Behind { slot: String, confirmed: Lsn, wanted: Lsn, seconds: u64 },
    #[error(
        "slot {slot:?} has confirmed {confirmed}, and outboxd only {kept}: another client has moved the slot"
    )]
    Moved { slot: String, confirmed: Lsn, kept: Lsn },
    #[error(
        "topic {topic:?} has no position of this relay: there is no proof that outboxd has read the slot"
    )]
    NoPosition { topic: String },
    #[error("rows must be kept for a time, and no column has the age of a row")]
    NoTimeColumn,
    #[error("--archive-format is for files, and no rows are archived in files")]
    NoFolder,
    #[error("no Parquet file can be made of {}, which has the rows", .0.display())]
    Parquet(PathBuf, #[source] ConvertError),
    #[error("the folder of the archive cannot be looked through")]
    Folder(#[source] PassError),
    #[error("the partitions of table {table} are skipped: {reason}")]
    Managed { table: String, reason: String },
    #[error("partitions of table {table} cannot be created or removed")]
    Partitions { table: String, source: PassError },
    #[error("there is no table {archive} for the archived rows of {table}")]
    NoArchive { archive: String, table: String },
    #[error("there is no folder {} for archived rows", .0.display())]
    NoArchiveFolder(PathBuf),
    #[error("rows of table {table} cannot be deleted")]
    Pass { table: String, source: PassError },
}

/// Privileges that the role needs on a table. UPDATE is needed for row locks.
pub(super) const PRIVILEGES: &str = "SELECT, UPDATE, DELETE";

/// `undefined_table`
const NO_TABLE: &str = "42P01";

impl CleanupError {
    /// Makes the error of a pass over a table.
    pub(super) fn of_pass(source: PassError, leaf: &Leaf, options: &CleanupOptions, role: &str) -> Self {
        let source = match (source, &options.archive) {
            (PassError::Postgres(error), Some(to @ ArchiveTo::Table(_)))
                if error.sqlstate() == Some(NO_TABLE) =>
            {
                return Self::NoArchive { archive: to.table(), table: leaf.quoted.clone() };
            }
            (PassError::Archive(error), Some(ArchiveTo::Folder(folder)))
                if error.kind() == ErrorKind::NotFound =>
            {
                return Self::NoArchiveFolder(folder.clone());
            }
            (PassError::Postgres(error), _) => error.or_grant(PRIVILEGES, &leaf.quoted, role).into(),
            (source, _) => source,
        };
        Self::Pass { table: leaf.name.clone(), source }
    }
}

impl Diagnose for CleanupError {
    fn diagnosis(&self) -> Diagnosis {
        let unprepared = Diagnosis::definite(Exit::Precondition);
        let failed = Diagnosis::definite(Exit::Failed);
        match self {
            Self::Assemble(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::CleanupObstacle(CleanupObstacle::BeforeSlot) => unprepared.with_fix(
                "outboxd verify checks that every row has its record. If so, or if older rows need not be sent: \
                 --also-before-slot",
            ),
            Self::CleanupObstacle(obstacle) => unprepared.with_fix(obstacle.fix()),
            Self::Captured(_) | Self::Doubtful { source: Doubt::Archive(_), .. } => {
                unprepared.with_fix("--archive-table with a table that table.include.list does not name")
            }
            Self::Doubtful { source: Doubt::Unpublished | Doubt::Missing(_) | Doubt::Unlogged(_), .. } => {
                unprepared.with_fix("outboxd check -c FILE has the details")
            }
            Self::Doubtful { source: Doubt::Filtered(_), .. } => {
                unprepared.with_fix("ALTER PUBLICATION … SET TABLE … without a WHERE")
            }
            Self::Doubtful { source: Doubt::Migrating, .. } => {
                unprepared.with_fix("outboxd migrate status -c FILE")
            }
            Self::OnlyCopies(_) => unprepared.with_fix(OnlyCopies::FIX),
            // The warning contains it.
            Self::Suspected { .. } => unprepared,
            Self::NoSlot { fix, .. } => unprepared.with_optional_fix(fix.clone()),
            Self::Behind { .. } => unprepared
                .with_fix("outboxd status -c FILE shows whether a relay reads it; --wait SECONDS waits longer"),
            Self::Moved { .. } => unprepared.with_fix("outboxd verify -c FILE lists the rows without a record"),
            Self::NoPosition { .. } => unprepared.with_fix("start outboxd run once, then run this again"),
            Self::NoTimeColumn => Diagnosis::config().with_fix("--time-column created_at"),
            Self::NoFolder => Diagnosis::config().with_fix("--archive-folder DIR"),
            Self::NoArchive { archive, table } => {
                unprepared.with_fix(format!("CREATE TABLE {archive} (LIKE {table});"))
            }
            Self::NoArchiveFolder(folder) => unprepared.with_fix(format!("mkdir -p {}", folder.display())),
            Self::Managed { .. } => unprepared.with_fix("leave --partitions and --partitions-ahead out"),
            Self::Pass { source: PassError::Changed, .. } => failed.with_fix("run this again"),
            Self::Pass { source: source @ PassError::Lacking { .. }, .. }
            | Self::Partitions { source: source @ PassError::Lacking { .. }, .. } => {
                failed.with_optional_fix(source.fix().map(str::to_owned))
            }
            Self::Pass { source: PassError::Parquet(_, source), .. } | Self::Parquet(_, source) => {
                failed.with_fix(parquet_fix(source))
            }
            Self::Pass { source: PassError::Postgres(error), .. }
            | Self::Partitions { source: PassError::Postgres(error), .. } => {
                Diagnosis { class: Class::Definite, ..error.diagnosis() }
            }
            Self::Pass { .. } | Self::Partitions { .. } | Self::Folder(_) => {
                failed.with_fix("give the folder room, and outboxd the right to write there")
            }
        }
    }
}

const ROOM: &str =
    "give the folder room, and run this again: the rows are in that file, and become a Parquet file then";

fn parquet_fix(error: &ConvertError) -> String {
    let fix = match error {
        ConvertError::Line(_) | ConvertError::Header => {
            "that file was changed by another program: each cleanup reads it again until it is moved elsewhere"
        }
        #[cfg(not(feature = "parquet"))]
        ConvertError::NotBuilt => {
            "run this with the image of outboxd, or with a build that has --features parquet"
        }
        #[cfg(feature = "parquet")]
        ConvertError::Parquet(_) => ROOM,
        ConvertError::Io(_) | ConvertError::Stopped => ROOM,
    };
    fix.to_owned()
}
