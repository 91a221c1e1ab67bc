//! Errors of `outboxd signal`.

use crate::cli::run::assemble::AssembleError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::{postgres, relay};

/// Reasons why no signal was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SignalError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Relay(#[from] relay::Error),
    #[error("this relay reads no signals: an EventRouter makes its records")]
    Outbox,
    #[error("this relay reads no signals: its configuration has no channel for them")]
    NoChannel,
    #[error("there is no signalling table {0}")]
    NoSignalTable(String),
    #[error("no captured table matches {name:?}")]
    NoTable { name: String, captured: Vec<String> },
    #[error(
        "the signal is written, but PostgreSQL returned no WAL position: it is unknown whether the relay reads it"
    )]
    NoPosition,
    #[error("--filter is for one table, and {0} match")]
    Filter(usize),
}

/// Returns the statement that creates a signalling table.
fn create_table(name: &str) -> String {
    format!(
        "CREATE TABLE {name} (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));"
    )
}

impl Diagnose for SignalError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Assemble(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Relay(error) => error.diagnosis(),
            Self::Outbox => Diagnosis::definite(Exit::Precondition).with_fix(
                "to send the rows of the outbox again: outboxd run -c FILE -X snapshot.mode=always",
            ),
            Self::NoChannel => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "{}\nset signal.data.collection=public.signals, and start outboxd again",
                create_table("public.signals")
            )),
            Self::NoSignalTable(name) => Diagnosis::definite(Exit::Precondition).with_fix(create_table(name)),
            Self::NoTable { captured, .. } if captured.is_empty() => Diagnosis::config(),
            Self::NoTable { captured, .. } => {
                Diagnosis::config().with_fix(format!("name one of {}", captured.join(", ")))
            }
            Self::Filter(_) => Diagnosis::config().with_fix("send a signal for each table"),
            Self::NoPosition => Diagnosis::definite(Exit::Failed),
        }
    }
}
