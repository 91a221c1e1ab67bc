//! Errors of `outboxd tail`.

use crate::cli::inspect::explain::ExplainError;
use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::decoding::DecodingError;
use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::kafka::tool_lines;
use crate::{kafka, registry};

/// Reasons why no records are shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum TailError {
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Decoding(#[from] DecodingError),
    #[error(transparent)]
    Topics(#[from] ExplainError),
    #[error("no topic is named")]
    NoSource,
    #[error("there is no topic {}", .0.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", and none "))]
    NoTopic(Vec<String>),
    #[error("the thread that does the work was interrupted")]
    Aborted,
    /// No failure: as many records as were wanted.
    #[error("enough")]
    Enough,
}

impl Diagnose for TailError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Config(error) => error.diagnosis(),
            Self::Assemble(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Registry(error) => error.diagnosis(),
            Self::Decoding(error) => error.diagnosis(),
            Self::Topics(error) => error.diagnosis(),
            Self::NoSource => Diagnosis::config().with_fix(
                "-c FILE follows the topics of its EventRouter; --bootstrap-servers SERVERS --topic TOPIC needs no file",
            ),
            Self::NoTopic(_) => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "{} shows those that there are; outboxd makes topics with the first event, where brokers let it",
                tool_lines::topics("--list")
            )),
            Self::Aborted | Self::Enough => Diagnosis::definite(Exit::Failed),
        }
    }
}
