//! Errors of `outboxd move`.

use crate::cli::prove::verify::VerifyError;
use crate::cli::run::assemble::AssembleError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::{postgres, relay};

/// Reasons why an outbox cannot be moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    #[error(transparent)]
    Assemble(Box<AssembleError>),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Relay(Box<relay::Error>),
    #[error(transparent)]
    Comparison(Box<VerifyError>),
    #[error(
        "the configuration has no EventRouter alone: change events have no id that is in the row and in the record"
    )]
    NoOutbox,
    #[error("the configuration captures {} tables, and a move is about one: {}", .0.len(), .0.join(", "))]
    NotOneTable(Vec<String>),
    #[error("table {0} has no column for the event's id")]
    NoId(String),
    #[error("table {table} has more than {max} rows that may have to be sent")]
    TooManyRows { table: String, max: usize },
    #[error(
        "{0} rows have no record, and the topics no longer have their first records: rows that were sent long ago cannot be distinguished from rows that were not"
    )]
    Forgotten(usize),
    #[error("replication slot {slot:?} is read by pid {pid}")]
    StillRead { slot: String, pid: i32 },
    #[error(
        "there is a replication slot {slot:?} already: a start that has a position of it resumes from there, and sends no snapshot"
    )]
    SlotThere { slot: String, is_lost: bool },
    #[error("{rows} rows of table {table} of the server that is left are neither here nor in Kafka")]
    NotArrived { table: String, rows: usize },
    #[error(
        "{rows} rows of table {table} of the server that is left have no id and are not in Kafka: nothing shows whether they are here"
    )]
    NoIds { table: String, rows: usize },
    #[error("role {role:?} may not create table {table}, which holds the ids of what is in Kafka")]
    MayNotWrite { role: String, table: String, fix: String },
    #[error("{0} is there already, and outboxd move has not written it")]
    FileThere(String),
    #[error("{path} cannot be read or written")]
    File {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl From<AssembleError> for MoveError {
    fn from(error: AssembleError) -> Self {
        Self::Assemble(Box::new(error))
    }
}

impl From<relay::Error> for MoveError {
    fn from(error: relay::Error) -> Self {
        Self::Relay(Box::new(error))
    }
}

impl From<VerifyError> for MoveError {
    fn from(error: VerifyError) -> Self {
        Self::Comparison(Box::new(error))
    }
}

impl Diagnose for MoveError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Assemble(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Comparison(error) => error.diagnosis(),
            Self::NoOutbox | Self::NoId(_) => Diagnosis::config(),
            Self::NotOneTable(_) => Diagnosis::config()
                .with_fix("name the one in the configuration: table.include.list=public.outbox"),
            Self::TooManyRows { .. } => Diagnosis::config().with_fix(NAME_SENT_ROWS),
            Self::Forgotten(_) => Diagnosis::definite(Exit::Precondition).with_fix(NAME_SENT_ROWS),
            Self::StillRead { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("stop the outboxd that reads it, then run this again"),
            Self::SlotThere { is_lost: true, .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("it is lost: outboxd slot drop -c FILE, then run this again"),
            Self::SlotThere { is_lost: false, .. } => Diagnosis::definite(Exit::Precondition).with_fix(
                "if it is not needed: outboxd slot drop -c FILE shows what dropping it means; or give slot.name another name",
            ),
            Self::NotArrived { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("wait until all rows are here: no program may write to the old server any more"),
            Self::NoIds { .. } => Diagnosis::definite(Exit::Precondition),
            Self::MayNotWrite { fix, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(format!("as the owner of the schema: {fix}"))
            }
            Self::FileThere(_) => {
                Diagnosis::definite(Exit::Precondition).with_fix("choose another name: --into FILE")
            }
            Self::File { .. } => Diagnosis::definite(Exit::Failed),
        }
    }
}

const NAME_SENT_ROWS: &str = "name the rows that were certainly sent: --sent \"created_at < '2026-11-01'\"";
