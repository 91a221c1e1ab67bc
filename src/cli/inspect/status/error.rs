//! Errors of `outboxd status`.

use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::http::AskError;
use crate::postgres;

/// Reasons for which the state is not known.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum StatusError {
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("no instance is named")]
    NoInstance,
    #[error("there is no replication slot {slot:?}{}", next.as_deref().map(|next| format!(": {next}")).unwrap_or_default())]
    NoSlot {
        slot: String,
        /// The next start's action, once it was asked for.
        next: Option<String>,
        fix: Option<String>,
    },
}

impl Diagnose for StatusError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Config(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Ask(AskError::NoAnswer(..)) => Diagnosis::transient(Exit::Failed).with_fix(
                "see that outboxd runs with --http and that the address is right; -c FILE instead of --http asks \
                 PostgreSQL",
            ),
            Self::Ask(AskError::Foreign(..)) => Diagnosis::transient(Exit::Failed)
                .with_fix("give the address after --http of the outboxd that runs"),
            Self::NoInstance => Diagnosis::config()
                .with_fix("--http ADDR for a running outboxd, or -c FILE for the slot in PostgreSQL"),
            Self::NoSlot { fix, .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix(fix.as_deref().unwrap_or("outboxd slot ls -c FILE shows those that there are")),
        }
    }
}
