use std::path::PathBuf;
use std::{fmt, io};

use crate::cli::shell::decoding::DecodingError;
use crate::error::{Class, Diagnose, Exit};
use crate::outbox::RouteError;
use crate::verification::MalformedEntry;
use crate::{kafka, postgres, registry, relay};

/// Reasons for which the rows cannot be verified.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum VerifyError {
    #[error(transparent)]
    Relay(#[from] relay::Error),
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    #[error(transparent)]
    Registry(#[from] registry::Error),
    #[error(transparent)]
    Decoding(#[from] DecodingError),
    /// The command line asks for what cannot be.
    #[error("{problem}")]
    Usage { problem: String, cure: String },
    /// The outbox is logical messages alone.
    #[error(
        "this configuration captures no table, only logical messages: PostgreSQL does not store them, so there is nothing to compare with"
    )]
    MessagesOnly,
    #[error(
        "topic {topic} has events of an outbox and changes of a table: verify cannot decide which record belongs to which"
    )]
    SharedTopic { topic: String },
    #[error(
        "verify cannot compare table {table}: its converters and transforms {problem}{}",
        Transforms(transforms)
    )]
    Reshaped { table: String, problem: &'static str, transforms: String },
    #[error("verify cannot compare table {table}: a row of nulls makes no record")]
    NoRecord {
        table: String,
        #[source]
        source: Box<RouteError>,
    },
    #[error("skipped.operations=c: this configuration sends no rows")]
    NothingIsSent,
    #[error("{path} cannot be {doing}")]
    Scratch {
        path: PathBuf,
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("{path} cannot be used")]
    Malformed {
        path: PathBuf,
        #[source]
        source: MalformedEntry,
    },
    #[error("one part of the {what} has more than {mebibytes} MiB: it does not fit into memory")]
    TooMuch { what: &'static str, mebibytes: u64 },
    #[error("the rows lead to more than {max} topics")]
    TooManyTopics { max: usize },
    #[error("the thread that reads the topics was aborted")]
    Aborted,
}

/// The transforms, when there are any.
struct Transforms<'t>(&'t str);

impl fmt::Display for Transforms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; the transforms are {}", self.0) }
    }
}

impl Diagnose for VerifyError {
    fn class(&self) -> Class {
        match self {
            Self::Relay(error) => error.class(),
            Self::Postgres(error) => error.class(),
            Self::Kafka(error) => error.class(),
            Self::Registry(error) => error.class(),
            Self::Decoding(error) => error.class(),
            Self::Usage { .. }
            | Self::MessagesOnly
            | Self::NothingIsSent
            | Self::SharedTopic { .. }
            | Self::Reshaped { .. }
            | Self::NoRecord { .. } => Class::Config,
            Self::Scratch { .. }
            | Self::Malformed { .. }
            | Self::TooMuch { .. }
            | Self::TooManyTopics { .. }
            | Self::Aborted => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Relay(error) => error.exit(),
            Self::Postgres(error) => error.exit(),
            Self::Kafka(error) => error.exit(),
            Self::Registry(error) => error.exit(),
            Self::Decoding(error) => error.exit(),
            Self::Usage { .. }
            | Self::MessagesOnly
            | Self::NothingIsSent
            | Self::SharedTopic { .. }
            | Self::Reshaped { .. }
            | Self::NoRecord { .. } => Exit::Usage,
            // 1 means that rows are missing. Here nothing is known of them.
            Self::Scratch { .. }
            | Self::Malformed { .. }
            | Self::TooMuch { .. }
            | Self::TooManyTopics { .. }
            | Self::Aborted => Exit::Precondition,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Relay(error) => error.cure(),
            Self::Postgres(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Registry(error) => error.cure(),
            Self::Decoding(error) => error.cure(),
            Self::Usage { cure, .. } => Some(cure.clone()),
            Self::Scratch { .. } => Some("name a folder with enough space: --scratch DIR".to_owned()),
            Self::TooMuch { .. } | Self::TooManyTopics { .. } => {
                Some("look at fewer rows at a time: --since, --until, --sample".to_owned())
            }
            Self::SharedTopic { .. } => Some(
                "look at one of the tables at a time: -X table.include.list=…".to_owned(),
            ),
            Self::Reshaped { .. } => Some(
                "verify reads values of JsonConverter, or of a converter with a schema registry, whose fields are those of the \
                 row, as they are without transforms or behind ExtractNewRecordState; see docs/verify.md"
                    .to_owned(),
            ),
            Self::MessagesOnly
            | Self::NothingIsSent
            | Self::NoRecord { .. }
            | Self::Malformed { .. }
            | Self::Aborted => None,
        }
    }
}
