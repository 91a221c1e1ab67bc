//! Counts of rows and records.

use super::finding::Problem;

/// Number of rows and records of each kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows that were looked at.
    pub rows: u64,
    /// Records that were looked at.
    pub records: u64,
    /// Rows whose record is there with its bytes, once or more often.
    pub sent: u64,
    /// Rows without a record.
    pub missing: u64,
    /// Rows without a record that the relay may not have come to yet.
    pub unsent: u64,
    /// Records of a row's id that differ from what the row makes.
    pub changed: u64,
    /// Rows whose record is in another topic.
    pub other_topic: u64,
    /// Rows whose record is there more than once.
    pub repeated: u64,
    /// Rows whose record comes too late.
    pub out_of_order: u64,
    /// Rows that make no record.
    pub cannot_be_sent: u64,
    /// Rows that went to the dead-letter topic.
    pub dead_letters: u64,
    /// Rows that are older than what their partition still has.
    pub expired: u64,
    /// Rows without a record in a compacted topic, where a later record of the key may have replaced theirs.
    pub compacted: u64,
    /// Rows whose last record is a delete, though they exist.
    pub gone: u64,
    /// Keys whose last record describes a row that does not exist.
    pub not_deleted: u64,
    /// Rows whose last record has not all of their fields, or others as well.
    pub altered: u64,
    /// Rows whose last record does not have all values, as the server did not send them.
    pub unavailable: u64,
    /// Rows that were changed while they were looked at.
    pub moved_on: u64,
    /// Rows with other values than their record, where updates are not sent.
    pub not_compared: u64,
    /// Records without a row: of rows that were deleted, or not of these tables.
    pub without_row: u64,
}

impl Tally {
    /// Returns whether each row's record is there, once, in order, with its bytes.
    #[must_use]
    pub(crate) const fn is_clean(&self) -> bool {
        let Self { missing, unsent, changed, other_topic, repeated, out_of_order, cannot_be_sent, .. } = self;
        let Self { gone, not_deleted, .. } = self;
        *missing == 0
            && *unsent == 0
            && *changed == 0
            && *other_topic == 0
            && *repeated == 0
            && *out_of_order == 0
            && *cannot_be_sent == 0
            && *gone == 0
            && *not_deleted == 0
    }

    pub(super) const fn count(&mut self, problem: &Problem) {
        let counter = match problem {
            Problem::Missing { .. } => &mut self.missing,
            Problem::Unsent => &mut self.unsent,
            Problem::Changed { .. } | Problem::Differs { .. } | Problem::Unreadable => &mut self.changed,
            Problem::Gone => &mut self.gone,
            Problem::NotDeleted => &mut self.not_deleted,
            Problem::OtherTopic => &mut self.other_topic,
            Problem::Repeated { .. } => &mut self.repeated,
            Problem::OutOfOrder => &mut self.out_of_order,
            Problem::CannotBeSent { .. } => &mut self.cannot_be_sent,
        };
        *counter = counter.saturating_add(1);
    }
}
