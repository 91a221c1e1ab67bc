use super::digest::Parts;
use super::entry::{Found, RowName, TopicNumber};

/// How many places of one row's records are told.
pub(super) const PLACES_MAX: usize = 10;

/// Something that is wrong with a row's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What.
    pub problem: Problem,
    /// The row; none when records are of one that is not there.
    pub row: Option<RowName>,
    /// The topic where its record should be; none when the row makes no record.
    pub topic: Option<TopicNumber>,
    /// Where records of its id are; the first ones if they are many.
    pub places: Vec<Place>,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// There is no record.
    Missing {
        /// What may be the reason, though nothing proves it.
        perhaps: Option<Deletion>,
    },
    /// There is no record, and the relay may not have come to the row yet.
    Unsent,
    /// There is a record of its id, with something else in it.
    Changed {
        /// What is different.
        parts: Parts,
    },
    /// The last record of its key has other values in these fields, named by their digests.
    Differs {
        /// The digests of their names.
        fields: Vec<u32>,
    },
    /// Its last record says that it is gone, and it is there.
    Gone,
    /// The last record of a key says that its row is there, and it is not.
    NotDeleted,
    /// The last record of its key cannot be read.
    Unreadable,
    /// Its record is in another topic.
    OtherTopic,
    /// Its record is there more than once.
    Repeated {
        /// How often it is there.
        times: u64,
    },
    /// Its record comes behind one that it should be before.
    OutOfOrder,
    /// The row makes no record, and there is no dead letter of it.
    CannotBeSent {
        /// Why.
        reason: String,
    },
}

/// What brokers delete records by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// Retention. The partition does not begin at offset 0 any more, and when the row was written is not known.
    Expired,
    /// Compaction. Whether a later record of its key is there is not known.
    Compacted,
}

/// How bad a finding is, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// A consumer does not have the row.
    Lost,
    /// A consumer has another row than the table.
    Wrong,
    /// A consumer has it, but not as it should come.
    Misplaced,
    /// It may still come, or has come and was deleted.
    Open,
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The topic.
    pub topic: TopicNumber,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

impl Problem {
    /// Its name, as it is printed.
    #[must_use]
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "missing",
            Self::Unsent => "missing_or_unsent",
            Self::Changed { .. } | Self::Differs { .. } | Self::Unreadable => "changed",
            Self::Gone => "deleted_in_topic",
            Self::NotDeleted => "not_deleted",
            Self::OtherTopic => "in_another_topic",
            Self::Repeated { .. } => "repeated",
            Self::OutOfOrder => "out_of_order",
            Self::CannotBeSent { .. } => "cannot_be_sent",
        }
    }
}

impl Problem {
    /// How bad it is.
    #[must_use]
    pub(crate) const fn severity(&self) -> Severity {
        match self {
            Self::Missing { perhaps: None } | Self::Gone | Self::CannotBeSent { .. } => Severity::Lost,
            Self::Changed { .. } | Self::Differs { .. } | Self::Unreadable | Self::NotDeleted => {
                Severity::Wrong
            }
            Self::OtherTopic | Self::Repeated { .. } | Self::OutOfOrder => Severity::Misplaced,
            Self::Missing { perhaps: Some(_) } | Self::Unsent => Severity::Open,
        }
    }
}

impl Place {
    /// That of a record.
    #[must_use]
    pub(crate) const fn of(found: &Found) -> Self {
        Self { topic: found.topic, partition: found.partition, offset: found.offset }
    }
}
