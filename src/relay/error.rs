use std::time::Duration;

use crate::ack::LedgerError;
use crate::error::{Class, Diagnose, Exit};
use crate::outbox::{BindError, RouteError};
use crate::pgoutput::UnknownRelation;
use crate::transaction::{EventPosition, SequenceError};
use crate::wal::Lsn;
use crate::wire::DecodeError;
use crate::{kafka, postgres};

/// Why the relay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// Kafka.
    #[error(transparent)]
    Kafka(#[from] kafka::Error),
    /// A table cannot be an outbox under this configuration.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A row cannot be routed, converted or sent.
    #[error("row {} of the transaction that committed at {} in table {table} cannot be sent", .position.ordinal, .position.commit_lsn)]
    Row {
        /// `schema.table`.
        table: String,
        /// Which row.
        position: EventPosition,
        /// Why.
        #[source]
        source: Box<RouteError>,
    },
    /// Kafka refused a row's record.
    #[error("a row of the transaction that committed at {commit_lsn} was refused by Kafka")]
    Refused {
        /// Which transaction.
        commit_lsn: Lsn,
        /// Why.
        #[source]
        source: Box<kafka::Rejection>,
    },
    /// A row was updated and `table.op.invalid.behavior=fatal`.
    #[error(
        "a row of table {table} was updated in the transaction that committed at {commit_lsn}, and transforms.outbox.table.op.invalid.behavior=fatal"
    )]
    Updated {
        /// `schema.table`.
        table: String,
        /// Which transaction.
        commit_lsn: Lsn,
    },
    /// A pgoutput message cannot be decoded.
    #[error("the WAL message at {lsn} cannot be decoded")]
    Decode {
        /// Where.
        lsn: Lsn,
        /// Which message, at which offset, and why.
        #[source]
        source: DecodeError,
    },
    /// A row of a relation that was not described.
    #[error(transparent)]
    Relation(#[from] UnknownRelation),
    /// Messages in an impossible order.
    #[error(transparent)]
    Sequence(#[from] SequenceError),
    /// The ledger was told something impossible: a bug of ours.
    #[error("the acknowledgement ledger is inconsistent")]
    Ledger(#[from] LedgerError),
    /// A stop did not drain in time.
    #[error("{records} records were not acknowledged within {} s of the stop; they will be sent again", .within.as_secs())]
    Undrained {
        /// How many.
        records: usize,
        /// `outboxd.shutdown.timeout.ms`.
        within: Duration,
    },
}

impl Error {
    /// Whether the stream could not be understood.
    pub(super) const fn is_garbled(&self) -> bool {
        use postgres::Error as Pg;
        matches!(
            self,
            Self::Decode { .. }
                | Self::Relation(_)
                | Self::Sequence(_)
                | Self::Postgres(Pg::Frame { .. } | Pg::Decode { .. } | Pg::Unexpected { .. })
        )
    }
}

impl Diagnose for Error {
    fn class(&self) -> Class {
        match self {
            Self::Postgres(error) => error.class(),
            Self::Kafka(error) => error.class(),
            Self::Bind(error) => error.class(),
            Self::Row { .. } | Self::Refused { .. } | Self::Updated { .. } | Self::Undrained { .. } => {
                Class::Definite
            }
            // A fresh connection tells whether the fault was on the way.
            Self::Decode { .. } | Self::Relation(_) | Self::Sequence(_) => Class::Transient,
            Self::Ledger(_) => Class::Definite,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::Postgres(error) => error.exit(),
            Self::Kafka(error) => error.exit(),
            Self::Bind(error) => error.exit(),
            Self::Row { .. } | Self::Refused { .. } | Self::Updated { .. } => Exit::Row,
            Self::Decode { .. }
            | Self::Relation(_)
            | Self::Sequence(_)
            | Self::Ledger(_)
            | Self::Undrained { .. } => Exit::Failed,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Postgres(error) => error.cure(),
            Self::Kafka(error) => error.cure(),
            Self::Bind(error) => error.cure(),
            Self::Row { source, .. } => source.cure(),
            Self::Refused { source, .. } => source.cure(),
            Self::Updated { .. } => Some(
                "outbox rows are written once: insert a new row instead, or set the option to warn"
                    .to_owned(),
            ),
            Self::Undrained { .. } => Some("raise outboxd.shutdown.timeout.ms, or look at Kafka".to_owned()),
            Self::Decode { .. } | Self::Relation(_) | Self::Sequence(_) | Self::Ledger(_) => None,
        }
    }
}
