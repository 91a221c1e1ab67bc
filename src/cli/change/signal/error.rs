use crate::cli::run::assemble::AssembleError;
use crate::error::{Class, Diagnose, Exit};
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

impl SignalError {
    fn inner(&self) -> Option<&dyn Diagnose> {
        match self {
            Self::Assemble(error) => Some(error),
            Self::Postgres(error) => Some(error),
            Self::Relay(error) => Some(error),
            Self::Outbox
            | Self::NoChannel
            | Self::NoSignalTable(_)
            | Self::NoTable { .. }
            | Self::NoPosition
            | Self::Filter(_) => None,
        }
    }
}

/// Returns the statement that creates a signalling table.
fn create_table(name: &str) -> String {
    format!(
        "CREATE TABLE {name} (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));"
    )
}

impl Diagnose for SignalError {
    fn class(&self) -> Class {
        match self {
            Self::NoTable { .. } | Self::Filter(_) => Class::Config,
            _ => self.inner().map_or(Class::Definite, Diagnose::class),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::NoTable { .. } | Self::Filter(_) => Exit::Usage,
            Self::NoPosition => Exit::Failed,
            _ => self.inner().map_or(Exit::Precondition, Diagnose::exit),
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Outbox => Some(
                "to send the rows of the outbox again: outboxd run -c FILE -X snapshot.mode=always"
                    .to_owned(),
            ),
            Self::NoChannel => Some(format!(
                "{}\nset signal.data.collection=public.signals, and start outboxd again",
                create_table("public.signals")
            )),
            Self::NoSignalTable(name) => Some(create_table(name)),
            Self::NoTable { captured, .. } if captured.is_empty() => None,
            Self::NoTable { captured, .. } => Some(format!("name one of {}", captured.join(", "))),
            Self::Filter(_) => Some("send a signal for each table".to_owned()),
            Self::Assemble(_) | Self::Postgres(_) | Self::Relay(_) | Self::NoPosition => {
                self.inner().and_then(Diagnose::cure)
            }
        }
    }
}
