use super::repeats::{Question, Tail};
use super::table::Table;
use crate::change::{Lookup, Reselected};
use crate::connect::converter::registered::{Registration, SchemaId};
use crate::pgoutput::Relation;
use crate::wal::{Lsn, Oid, Xid};

/// What must be known or done before the stream goes on.
#[derive(Debug)]
pub(super) enum Need {
    /// What the rows of a relation are, which was described anew within this transaction. It may have changed the table itself.
    Table { relation: Box<Relation>, within: Option<Xid> },
    /// The id of a schema.
    Schema(Box<Registration>),
    /// This topic, which is written to for the first time, or the first time in a while.
    Topic(String),
    /// What is at the end of a topic.
    Tail(Box<Question>),
    /// Values of a row, as its table has them once this transaction is seen.
    Values { lookup: Box<Lookup>, within: Option<Xid> },
    /// That everything in flight comes back. Nobody is asked for it.
    QueueEmpty,
    /// That the rows of a chunk are read. The chunk reader is asked for them.
    Rows,
}

/// A need that is met.
#[derive(Debug)]
pub(super) enum Answer {
    /// The rows of this relation are that.
    Table { relation: Oid, table: Table },
    /// The schema has this id.
    Schema(Box<(Registration, SchemaId)>),
    /// The topic is there with so many partitions, or will not come.
    Topic { name: String, partitions: usize },
    /// What was read at the end of the topic.
    Tail(Tail),
    /// What the table has of the row.
    Values(Reselected),
    /// Everything in flight has come back.
    QueueEmpty,
    /// The rows are there, or will not come.
    Rows,
}

impl Need {
    /// Whether it is met soon, so that a stop can wait for it too. A registry or a broker may not answer for long.
    pub(super) const fn is_brief(&self) -> bool {
        matches!(self, Self::Table { .. } | Self::QueueEmpty)
    }
}

/// What waits.
#[derive(Debug)]
pub(super) enum Waiting {
    /// A record that the feed has kept.
    Record,
    /// A pgoutput message, to be taken again, and where it stands in the WAL.
    Message { data: Vec<u8>, lsn: Lsn },
    /// A row that its source gives again.
    Row,
    /// The rows behind a relation's description.
    Rows,
    /// A heartbeat, which beats again when it is due.
    Heartbeat,
}
