use crate::config::ConfigError;
use crate::error::{Class, Diagnose, Exit};
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
    Nobody,
    #[error("there is no replication slot {slot:?}{}", next.as_deref().map(|next| format!(": {next}")).unwrap_or_default())]
    NoSlot {
        slot: String,
        /// The next start's action, once it was asked for.
        next: Option<String>,
        fix: Option<String>,
    },
}

impl Diagnose for StatusError {
    fn class(&self) -> Class {
        match self {
            Self::Config(error) => error.class(),
            Self::Postgres(error) => error.class(),
            Self::Ask(_) => Class::Transient,
            Self::Nobody => Class::Config,
            Self::NoSlot { .. } => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Config(error) => error.exit(),
            Self::Postgres(error) => error.exit(),
            Self::Ask(_) => Exit::Failed,
            Self::Nobody => Exit::Usage,
            Self::NoSlot { .. } => Exit::Precondition,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.cure(),
            Self::Postgres(error) => error.cure(),
            Self::Ask(AskError::NoAnswer(..)) => Some(
                "see that outboxd runs with --http and that the address is right; -c FILE instead of --http asks \
                 PostgreSQL"
                    .to_owned(),
            ),
            Self::Ask(AskError::Foreign(..)) => {
                Some("give the address after --http of the outboxd that runs".to_owned())
            }
            Self::Nobody => {
                Some("--http ADDR for a running outboxd, or -c FILE for the slot in PostgreSQL".to_owned())
            }
            Self::NoSlot { fix: Some(fix), .. } => Some(fix.clone()),
            Self::NoSlot { fix: None, .. } => {
                Some("outboxd slot ls -c FILE shows those that there are".to_owned())
            }
        }
    }
}
