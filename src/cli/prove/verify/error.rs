//! Errors of `outboxd verify`.

use std::path::PathBuf;
use std::{fmt, io};

use crate::cli::shell::decoding::DecodingError;
use crate::error::{Diagnose, Diagnosis, Exit};
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
    /// The command line has an impossible combination.
    #[error("{problem}")]
    Usage { problem: String, fix: String },
    /// The outbox is logical messages alone.
    #[error(
        "this configuration captures no table, only logical messages: PostgreSQL does not store them, so there is nothing to compare with"
    )]
    MessagesOnly,
    #[error(
        "topic {topic} has events of an outbox and changes of a table: verify cannot decide which record belongs to which"
    )]
    SharedTopic { topic: String, outboxes: Vec<String>, tables: Vec<String> },
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
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Relay(error) => error.diagnosis(),
            Self::Postgres(error) => error.diagnosis(),
            Self::Kafka(error) => error.diagnosis(),
            Self::Registry(error) => error.diagnosis(),
            Self::Decoding(error) => error.diagnosis(),
            Self::Usage { fix, .. } => Diagnosis::config().with_fix(fix),
            Self::SharedTopic { outboxes, tables, .. } => Diagnosis::config().with_fix(format!(
                "verify one kind of tables at a time: -X table.include.list={}, then -X table.include.list={}",
                outboxes.join(","),
                tables.join(",")
            )),
            Self::Reshaped { .. } => Diagnosis::config().with_fix(
                "verify reads values of JsonConverter, or of a converter with a schema registry, whose fields are those of the \
                 row, as they are without transforms or behind ExtractNewRecordState; see docs/verify.md",
            ),
            Self::MessagesOnly | Self::NothingIsSent | Self::NoRecord { .. } => Diagnosis::config(),
            // 1 means that rows are missing. Here nothing is known of them.
            Self::Scratch { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("name a folder with enough space: --scratch DIR"),
            Self::TooMuch { .. } | Self::TooManyTopics { .. } => Diagnosis::definite(Exit::Precondition)
                .with_fix("look at fewer rows at a time: --since, --until, --sample"),
            Self::Malformed { .. } | Self::Aborted => Diagnosis::definite(Exit::Precondition),
        }
    }
}
