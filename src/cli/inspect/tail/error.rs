use crate::cli::inspect::explain::ExplainError;
use crate::cli::run::assemble::AssembleError;
use crate::cli::shell::decoding::DecodingError;
use crate::config::ConfigError;
use crate::error::{Class, Diagnose, Exit};
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
    fn class(&self) -> Class {
        match self {
            Self::Config(error) => error.class(),
            Self::Assemble(error) => error.class(),
            Self::Kafka(error) => error.class(),
            Self::Registry(error) => error.class(),
            Self::Decoding(error) => error.class(),
            Self::Topics(error) => error.class(),
            Self::NoSource => Class::Config,
            Self::NoTopic(_) | Self::Aborted | Self::Enough => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Config(error) => error.exit(),
            Self::Assemble(error) => error.exit(),
            Self::Kafka(error) => error.exit(),
            Self::Registry(error) => error.exit(),
            Self::Decoding(error) => error.exit(),
            Self::Topics(error) => error.exit(),
            Self::NoSource => Exit::Usage,
            Self::NoTopic(_) => Exit::Precondition,
            Self::Aborted | Self::Enough => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.cure(),
            Self::Assemble(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Registry(error) => error.cure(),
            Self::Decoding(error) => error.cure(),
            Self::Topics(error) => error.cure(),
            Self::NoSource => Some(
                "-c FILE follows the topics of its EventRouter; --bootstrap-servers SERVERS --topic TOPIC needs no file"
                    .to_owned(),
            ),
            Self::NoTopic(_) => Some(format!(
                "{} shows those that there are; outboxd makes topics with the first event, where brokers let it",
                tool_lines::topics("--list")
            )),
            Self::Aborted | Self::Enough => None,
        }
    }
}
