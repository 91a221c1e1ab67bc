//! Assembly of `Begin` … `Commit`: the transaction of each change, and the change's position in it.
//!
//! Rows are not buffered: with protocol version 1 pgoutput sends a transaction only after it has committed. A row can be sent at
//! once, and only the confirmation of its LSN waits for the commit.

mod history;

use crate::pgoutput::{Begin, Commit};
use crate::wal::Lsn;

pub use history::{Divergence, History, Identity};

/// Position of a record in the source: commit LSN of its transaction, LSN of its change, its number among the changes with that
/// LSN, and its number among the records of the change.
///
/// *Invariant:* it is a function of the WAL, and of the publication at the time of writing. It does not depend on the
/// configuration, and differs for each record: the rows of one COPY share an LSN. Positions are ordered as the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    /// LSN of the commit record.
    pub commit_lsn: Lsn,
    /// LSN of the change's WAL record; zero for the begin of the transaction.
    pub lsn: Lsn,
    /// Number of the change among those with this LSN, from 0.
    pub ordinal: u64,
    /// Number of the record among those of its change, from 0. Most changes have one record; others several, such as a delete and
    /// its tombstone.
    pub part: u32,
}

impl EventPosition {
    /// Returns the position of an event's first record.
    #[must_use]
    pub const fn new(commit_lsn: Lsn, lsn: Lsn, ordinal: u64) -> Self {
        Self { commit_lsn, lsn, ordinal, part: 0 }
    }

    /// Returns the position before all changes of a transaction.
    #[must_use]
    pub const fn begin(commit_lsn: Lsn) -> Self {
        Self::new(commit_lsn, Lsn::ZERO, 0)
    }

    /// Returns the position after all changes of a transaction.
    #[must_use]
    pub const fn end(commit_lsn: Lsn) -> Self {
        Self::new(commit_lsn, commit_lsn, 0)
    }

    /// Returns the position of the event's next record.
    #[must_use]
    pub const fn next_part(self) -> Self {
        Self { part: self.part.saturating_add(1), ..self }
    }

    /// Returns the change within its transaction, for messages: `change 0/16B3748`, and the number of earlier changes with this
    /// LSN.
    #[must_use]
    pub fn change(self) -> String {
        match self.ordinal {
            0 => format!("change {}", self.lsn),
            number => format!("change {} ({number} others of this LSN before it)", self.lsn),
        }
    }

    /// Returns a position after every record of the event.
    #[must_use]
    pub const fn end_of_event(self) -> Self {
        Self { part: u32::MAX, ..self }
    }
}

/// Relation of a record to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A record of an event of the stream, which has the same position every time the stream sends it.
    Event(EventPosition),
    /// A row that was read while the stream was before this event. It has no position of its own: another read may return other
    /// rows, or none.
    Read(EventPosition),
}

impl Standing {
    /// Returns the position of the stream.
    #[must_use]
    pub const fn position(self) -> EventPosition {
        match self {
            Self::Event(position) | Self::Read(position) => position,
        }
    }

    /// Returns the event's position, which is the same every time it arrives, or `None` for a row that was read.
    #[must_use]
    pub const fn event(self) -> Option<EventPosition> {
        match self {
            Self::Event(position) => Some(position),
            Self::Read(_) => None,
        }
    }

    /// Returns the value for the event's next record.
    #[must_use]
    pub const fn next_part(self) -> Self {
        match self {
            Self::Event(position) => Self::Event(position.next_part()),
            Self::Read(position) => Self::Read(position.next_part()),
        }
    }
}

impl From<EventPosition> for Standing {
    fn from(position: EventPosition) -> Self {
        Self::Event(position)
    }
}

/// State of the stream: between transactions or inside one.
#[derive(Debug, Default)]
pub enum Assembler {
    /// Between transactions.
    #[default]
    Idle,
    /// Inside a transaction.
    Open {
        /// `Begin` message of the transaction.
        begin: Begin,
        /// LSN of the last change.
        lsn: Lsn,
        /// Number of changes with this LSN so far.
        changes: u64,
    },
}

/// A sequence of messages that pgoutput never sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// A `Begin` inside a transaction.
    #[error("Begin of a transaction with commit at {0} inside another")]
    BeginInside(Lsn),
    /// A change or `Commit` outside a transaction.
    #[error("a {0} outside a transaction")]
    Outside(&'static str),
    /// A `Commit` of another transaction than the open one.
    #[error("Commit at {found} ends the transaction that announced {announced}")]
    CommitMismatch {
        /// Commit LSN in `Begin`.
        announced: Lsn,
        /// Commit LSN in `Commit`.
        found: Lsn,
    },
}

impl Assembler {
    /// Accepts `Begin`.
    ///
    /// # Errors
    /// When a transaction is open.
    pub const fn begin(&mut self, begin: Begin) -> Result<(), SequenceError> {
        if matches!(self, Self::Open { .. }) {
            return Err(SequenceError::BeginInside(begin.final_lsn));
        }
        *self = Self::Open { begin, lsn: Lsn::ZERO, changes: 0 };
        Ok(())
    }

    /// Returns the transaction that a change belongs to.
    ///
    /// # Errors
    /// When none is open.
    pub const fn current(&self) -> Result<&Begin, SequenceError> {
        match self {
            Self::Open { begin, .. } => Ok(begin),
            Self::Idle => Err(SequenceError::Outside("change")),
        }
    }

    /// Returns the position of the next change of the open transaction, whose WAL record is at `at`. It is the next one until
    /// [`Self::advance`].
    ///
    /// # Errors
    /// When none is open.
    pub fn next_position(&self, at: Lsn) -> Result<EventPosition, SequenceError> {
        match self {
            Self::Open { begin, lsn, changes } => {
                let ordinal = if *lsn == at { *changes } else { 0 };
                Ok(EventPosition::new(begin.final_lsn, at, ordinal))
            }
            Self::Idle => Err(SequenceError::Outside("change")),
        }
    }

    /// Counts a change of the open transaction, whose WAL record is at `at`.
    pub fn advance(&mut self, at: Lsn) {
        if let Self::Open { lsn, changes, .. } = self {
            if *lsn != at {
                (*lsn, *changes) = (at, 0);
            }
            *changes = changes.saturating_add(1);
        }
    }

    /// Sets the number of earlier changes with the LSN `at` in the open transaction.
    pub const fn pass(&mut self, at: Lsn, before: u64) {
        if let Self::Open { lsn, changes, .. } = self {
            (*lsn, *changes) = (at, before);
        }
    }

    /// Returns the LSN of the last change of the open transaction; zero without one.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        match self {
            Self::Open { lsn, .. } => *lsn,
            Self::Idle => Lsn::ZERO,
        }
    }

    /// Returns the value for a row that is read at this point, after the last change.
    ///
    /// # Errors
    /// As [`Self::next_position`].
    pub const fn beside(&self) -> Result<Standing, SequenceError> {
        match self {
            Self::Open { begin, lsn, changes } => {
                Ok(Standing::Read(EventPosition::new(begin.final_lsn, *lsn, *changes)))
            }
            Self::Idle => Err(SequenceError::Outside("row that was read")),
        }
    }

    /// Accepts `Commit`.
    ///
    /// # Errors
    /// When no transaction is open, or another one is.
    pub fn commit(&mut self, commit: &Commit) -> Result<(), SequenceError> {
        match std::mem::take(self) {
            Self::Idle => Err(SequenceError::Outside("Commit")),
            Self::Open { begin, .. } if begin.final_lsn != commit.commit_lsn => {
                Err(SequenceError::CommitMismatch { announced: begin.final_lsn, found: commit.commit_lsn })
            }
            Self::Open { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wal::{PgTimestamp, Xid};

    fn begin(lsn: u64) -> Begin {
        Begin { final_lsn: Lsn::new(lsn), commit_time: PgTimestamp(0), xid: Xid(1) }
    }

    fn commit(lsn: u64) -> Commit {
        Commit { commit_lsn: Lsn::new(lsn), end_lsn: Lsn::new(lsn + 1), commit_time: PgTimestamp(0) }
    }

    #[test]
    fn changes_with_the_same_lsn_are_numbered() {
        let mut assembler = Assembler::default();
        for lsn in [10, 20] {
            assembler.begin(begin(lsn)).unwrap();
            for (at, ordinal) in [(5, 0), (5, 1), (6, 0), (8, 0), (8, 1), (8, 2)] {
                let expected = EventPosition::new(Lsn::new(lsn), Lsn::new(at), ordinal);
                // A message that must wait is given again, and has the same position.
                for _ in 0..2 {
                    assert_eq!(assembler.next_position(Lsn::new(at)), Ok(expected));
                }
                assembler.advance(Lsn::new(at));
            }
            assert_eq!(assembler.commit(&commit(lsn)), Ok(()));
        }
    }

    proptest! {
        /// A configuration decides which WAL records are looked at, and how often a row is read beside them.
        #[test]
        fn what_is_excluded_changes_no_position(
            records in prop::collection::vec((1..4u64, 1..4u64), 1..20),
            looked_at in prop::collection::vec(any::<bool>(), 20),
        ) {
            let positions = |taken: &dyn Fn(usize) -> bool| {
                let (mut assembler, mut at, mut positions) = (Assembler::default(), 0, Vec::new());
                assembler.begin(begin(1_000)).unwrap();
                for (record, (gap, changes)) in records.iter().enumerate() {
                    at += gap;
                    for change in 0..*changes {
                        let position = taken(record).then(|| assembler.next_position(Lsn::new(at)).unwrap());
                        position.iter().for_each(|_| assembler.advance(Lsn::new(at)));
                        positions.push(((record, change), position));
                    }
                }
                positions
            };
            let all = positions(&|_| true);
            let places: Vec<_> = all.iter().map(|(_, position)| *position).collect();
            prop_assert!(places.windows(2).all(|two| two[0] < two[1]), "{places:?}");
            for (some, all) in positions(&|record| looked_at[record]).into_iter().zip(all) {
                prop_assert!(some.1.is_none() || some == all, "{some:?} is not {all:?}");
            }
        }
    }

    #[test]
    fn events_that_were_there_before_are_counted() {
        let mut assembler = Assembler::default();
        let at = Lsn::new(3);
        assembler.pass(at, 7);
        assert_eq!(assembler.next_position(at), Err(SequenceError::Outside("change")));
        assembler.begin(begin(10)).unwrap();
        assembler.pass(at, 7);
        assert_eq!(assembler.next_position(at), Ok(EventPosition::new(Lsn::new(10), at, 7)));
    }

    #[test]
    fn impossible_sequences_are_refused() {
        let mut assembler = Assembler::default();
        assert_eq!(assembler.next_position(Lsn::new(1)), Err(SequenceError::Outside("change")));
        assert_eq!(assembler.commit(&commit(1)), Err(SequenceError::Outside("Commit")));
        assembler.begin(begin(10)).unwrap();
        assert_eq!(assembler.begin(begin(11)), Err(SequenceError::BeginInside(Lsn::new(11))));
        assert!(matches!(assembler.commit(&commit(11)), Err(SequenceError::CommitMismatch { .. })));
    }
}
