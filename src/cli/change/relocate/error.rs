use crate::cli::prove::verify::VerifyError;
use crate::cli::run::assemble::AssembleError;
use crate::error::{Class, Diagnose, Exit};
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

impl MoveError {
    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Assemble(error) => Some(error.as_ref()),
            Self::Postgres(error) => Some(error),
            Self::Relay(error) => Some(error.as_ref()),
            Self::Comparison(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}

impl Diagnose for MoveError {
    fn class(&self) -> Class {
        match (self.inner(), self) {
            (Some(error), _) => error.class(),
            (None, Self::NoOutbox | Self::NotOneTable(_) | Self::NoId(_) | Self::TooManyRows { .. }) => {
                Class::Config
            }
            _ => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match (self.inner(), self) {
            (Some(error), _) => error.exit(),
            (
                None,
                Self::StillRead { .. }
                | Self::SlotThere { .. }
                | Self::NotArrived { .. }
                | Self::NoIds { .. }
                | Self::Forgotten(_)
                | Self::MayNotWrite { .. }
                | Self::FileThere(_),
            ) => Exit::Precondition,
            (None, error) if error.class() == Class::Config => Exit::Usage,
            _ => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        let cure = match self {
            Self::NotOneTable(_) => "name the one in the configuration: table.include.list=public.outbox",
            Self::TooManyRows { .. } | Self::Forgotten(_) => {
                "name the rows that were certainly sent: --sent \"created_at < '2026-11-01'\""
            }
            Self::StillRead { .. } => "stop the outboxd that reads it, then run this again",
            Self::SlotThere { is_lost: true, .. } => {
                "it is lost: outboxd slot drop -c FILE, then run this again"
            }
            Self::SlotThere { .. } => {
                "if it is not needed: outboxd slot drop -c FILE shows what dropping it means; or give slot.name another name"
            }
            Self::MayNotWrite { fix, .. } => return Some(format!("as the owner of the schema: {fix}")),
            Self::FileThere(_) => "choose another name: --into FILE",
            Self::NotArrived { .. } => {
                "wait until all rows are here: no program may write to the old server any more"
            }
            _ => return self.inner().and_then(Diagnose::cure),
        };
        Some(cure.to_owned())
    }
}
