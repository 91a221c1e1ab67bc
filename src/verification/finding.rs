//! Findings about rows and records.

use super::digest::Parts;
use super::entry::{Found, RowName, TopicNumber};

/// Most places of one row's records that are reported.
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
    /// Places of records with its id; only the first ones if they are many.
    pub places: Vec<Place>,
}

/// Problem of a row or a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    /// No record.
    Missing {
        /// Possible reason, though nothing proves it.
        perhaps: Option<Deletion>,
    },
    /// No record, and the relay may not have reached the row yet.
    Unsent,
    /// A record with its id and other contents.
    Changed {
        /// Parts that differ.
        parts: Parts,
    },
    /// The last record of its key has other values in these fields, named by their digests.
    Differs {
        /// The digests of their names.
        fields: Vec<u32>,
    },
    /// Its last record is a delete, but the row exists.
    Gone,
    /// The last record of a key describes a row, but the row does not exist.
    NotDeleted,
    /// The last record of its key cannot be read.
    Unreadable,
    /// Its record is in another topic.
    OtherTopic,
    /// Several records.
    Repeated {
        /// Number of its records.
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

/// Limits by which brokers delete records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// Retention. The partition does not begin at offset 0 any more, and when the row was written is not known.
    Expired,
    /// Compaction. Whether a later record of its key is there is not known.
    Compacted,
}

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// A consumer does not have the row.
    Lost,
    /// A consumer has another row than the table.
    Wrong,
    /// A consumer has it, but not as it should come.
    Misplaced,
    /// May still arrive, or has arrived and was deleted.
    Open,
}

/// Place of a record.
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
    /// Returns its name for output.
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
    /// Returns how bad it is.
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
    /// Returns the place of a record.
    #[must_use]
    pub(crate) const fn of(found: &Found) -> Self {
        Self { topic: found.topic, partition: found.partition, offset: found.offset }
    }
}
