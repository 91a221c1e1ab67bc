//! Errors of `outboxd slot`.

use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::postgres::{self, InvalidSlotName, shown_application};
use crate::wal::Lsn;

/// Reasons why nothing was done about a slot.
#[derive(Debug, thiserror::Error)]
pub(super) enum SlotError {
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error("--slot: {0}")]
    NoName(#[from] InvalidSlotName),
    #[error("there is no replication slot {0:?}")]
    NoSlot(String),
    #[error("there is a replication slot {0:?} already")]
    Exists(String),
    #[error("there is no publication {publication:?} in database {database:?}")]
    NoPublication { publication: String, database: String, publish: String },
    #[error("replication slot {slot:?} is in use by pid {pid}{}", named(application.as_deref()))]
    InUse { slot: String, pid: i32, application: Option<String> },
    #[error("replication slot {slot:?} stands at {confirmed} and cannot go back to {to}")]
    Backwards { slot: String, confirmed: Lsn, to: Lsn },
    #[error("{to} lies beyond the end of the WAL, {end}")]
    BeyondTheEnd { to: Lsn, end: Lsn },
}

fn named(application: Option<&str>) -> String {
    application
        .filter(|name| !name.is_empty())
        .map(|name| format!(" ({})", shown_application(name)))
        .unwrap_or_default()
}

impl Diagnose for SlotError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Config(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::NoName(error) => Diagnosis::config().with_fix(format!("--slot {}", error.like())),
            Self::NoSlot(_) => Diagnosis::definite(Exit::Precondition)
                .with_fix("outboxd slot ls -c FILE shows those that there are"),
            Self::Exists(_) => Diagnosis::definite(Exit::Precondition)
                .with_fix("use it as it is, or drop it first: outboxd slot drop -c FILE"),
            Self::NoPublication { publication, publish, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(format!(
                    "make it first, so that the slot can be read: CREATE PUBLICATION {publication} FOR TABLE … WITH \
                     (publish = '{publish}'); or let outboxd run make both at its first start"
                ))
            }
            Self::InUse { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("stop the outboxd that reads it, then run this again"),
            Self::Backwards { .. } => Diagnosis::config()
                .with_fix("what is confirmed is gone from the stream; outboxd verify lists what is missing"),
            Self::BeyondTheEnd { .. } => Diagnosis::config().with_fix(
                "give one of this server that is behind the slot: outboxd slot ls -c FILE shows where each stands",
            ),
        }
    }
}
