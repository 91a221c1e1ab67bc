//! Facts that a row may lack (a schema's id, a topic, the description of its table), and the answers.

use super::repeats::{Question, Tail};
use crate::change::{Lookup, Reselected};
use crate::connect::converter::registered::{Registration, SchemaId};
use crate::pgoutput::Relation;
use crate::relay::capture::table::Table;
use crate::wal::{Oid, Xid};

/// Requirement that must be met before the stream continues.
#[derive(Debug)]
pub(in crate::relay) enum Need {
    /// Description of a relation that was described again within this transaction. The transaction may have
    /// changed the table itself.
    Table { relation: Box<Relation>, within: Option<Xid> },
    /// The id of a schema.
    Schema(Box<Registration>),
    /// Metadata of this topic, which is written to for the first time, or the first time in a while.
    Topic(String),
    /// Tail of a topic.
    Tail(Box<Question>),
    /// Values of a row, as its table has them once this transaction is seen.
    Values { lookup: Box<Lookup>, within: Option<Xid> },
    /// An empty queue: waits until nothing is in flight; needs no query.
    QueueEmpty,
    /// Rows of a chunk, from the chunk reader.
    Rows,
}

/// A need that is met.
#[derive(Debug)]
pub(in crate::relay) enum Answer {
    /// The rows of this relation are that.
    Table { relation: Oid, table: Table },
    /// The schema has this id.
    Schema(Box<(Registration, SchemaId)>),
    /// Number of partitions of the topic; 0 when that is not known.
    Topic { name: String, partitions: usize },
    /// Records read at the end of the topic.
    Tail(Tail),
    /// Present values of the row.
    Values(Reselected),
    /// Everything in flight has come back.
    QueueEmpty,
    /// The rows are there, or will not come.
    Rows,
}

impl Need {
    /// Returns whether it is met soon, so that a stop can wait for it too. A registry or a broker may not
    /// respond for long.
    pub(in crate::relay) const fn is_brief(&self) -> bool {
        matches!(self, Self::Table { .. } | Self::QueueEmpty)
    }
}
