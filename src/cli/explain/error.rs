use crate::error::{Class, Diagnose, Exit};
use crate::{kafka, postgres};

/// Why the way of an event cannot be told.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum ExplainError {
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error("the configuration has no EventRouter alone: change events have no id that could be looked for")]
    NoOutbox,
    #[error("{found} topics may have the record; more than {max} are not searched")]
    TooManyTopics { found: usize, max: usize },
    #[error("the thread that does the work was aborted")]
    Aborted,
}

impl Diagnose for ExplainError {
    fn class(&self) -> Class {
        match self {
            Self::Postgres(error) => error.class(),
            Self::Kafka(error) => error.class(),
            Self::NoOutbox | Self::TooManyTopics { .. } => Class::Config,
            Self::Aborted => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Postgres(error) => error.exit(),
            Self::Kafka(error) => error.exit(),
            Self::NoOutbox | Self::TooManyTopics { .. } => Exit::Usage,
            Self::Aborted => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::TooManyTopics { .. } => Some("name the one that is meant: --topic TOPIC".to_owned()),
            Self::NoOutbox | Self::Aborted => None,
        }
    }
}
