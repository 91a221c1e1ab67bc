//! Begin … Commit: tells which transaction a change belongs to and its place in it.
//!
//! Rows are not held back: with protocol version 1 pgoutput sends a transaction only after it has committed, so a row
//! can go on at once and only the LSN waits for the commit.

mod history;

use crate::pgoutput::{Begin, Commit};
use crate::wal::Lsn;

pub(crate) use history::{Divergence, History, Identity};

/// Where a record stands in the source: the commit LSN of its transaction, the ordinal of its event among that transaction's,
/// and its place among the records of that event. Unlike a row's own LSN it is unique and stable over restarts: the rows of one
/// COPY share an LSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventPosition {
    /// LSN of the commit record.
    pub commit_lsn: Lsn,
    /// Counts from 0.
    pub ordinal: u64,
    /// Counts from 0: that of the only record, as a rule. A change can become several, such as a delete and its tombstone.
    pub part: u32,
}

impl EventPosition {
    /// That of an event's first record.
    #[must_use]
    pub const fn new(commit_lsn: Lsn, ordinal: u64) -> Self {
        Self { commit_lsn, ordinal, part: 0 }
    }

    /// That of the event's next record.
    #[must_use]
    pub const fn next_part(self) -> Self {
        Self { part: self.part.saturating_add(1), ..self }
    }

    /// Behind every record of the event.
    #[must_use]
    pub const fn end_of_event(self) -> Self {
        Self { part: u32::MAX, ..self }
    }
}

/// How a record stands to the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is of an event of the stream, which has the same place whenever the stream brings it.
    Event(EventPosition),
    /// It is a row that was read while the stream stood before this event: it has no place of its own. Read again there are
    /// other rows, or none.
    Read(EventPosition),
}

impl Standing {
    /// Where the stream stands.
    #[must_use]
    pub const fn position(self) -> EventPosition {
        match self {
            Self::Event(position) | Self::Read(position) => position,
        }
    }

    /// The place of the event, which is the same whenever it comes.
    #[must_use]
    pub const fn event(self) -> Option<EventPosition> {
        match self {
            Self::Event(position) => Some(position),
            Self::Read(_) => None,
        }
    }

    /// That of the event's next record.
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

/// The state of the stream: between transactions or inside one.
#[derive(Debug, Default)]
pub enum Assembler {
    /// Between transactions.
    #[default]
    Idle,
    /// Inside one.
    Open {
        /// What `Begin` said.
        begin: Begin,
        /// Events so far.
        events: u64,
    },
}

/// A sequence of messages that pgoutput never sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// `Begin` inside a transaction.
    #[error("Begin of a transaction with commit at {0} inside another")]
    BeginInside(Lsn),
    /// A change or `Commit` outside one.
    #[error("a {0} outside a transaction")]
    Outside(&'static str),
    /// `Commit` of another transaction than the open one.
    #[error("Commit at {found} ends the transaction that announced {announced}")]
    CommitMismatch {
        /// What `Begin` said.
        announced: Lsn,
        /// What `Commit` says.
        found: Lsn,
    },
}

impl Assembler {
    /// Takes `Begin`.
    ///
    /// # Errors
    /// When a transaction is open.
    pub const fn begin(&mut self, begin: Begin) -> Result<(), SequenceError> {
        if matches!(self, Self::Open { .. }) {
            return Err(SequenceError::BeginInside(begin.final_lsn));
        }
        *self = Self::Open { begin, events: 0 };
        Ok(())
    }

    /// The transaction that a change belongs to.
    ///
    /// # Errors
    /// When none is open.
    pub const fn current(&self) -> Result<&Begin, SequenceError> {
        match self {
            Self::Open { begin, .. } => Ok(begin),
            Self::Idle => Err(SequenceError::Outside("change")),
        }
    }

    /// The place of the next event of the open transaction.
    ///
    /// # Errors
    /// When none is open.
    pub const fn next_position(&mut self) -> Result<EventPosition, SequenceError> {
        match self {
            Self::Open { begin, events } => {
                let ordinal = *events;
                *events = events.saturating_add(1);
                Ok(EventPosition::new(begin.final_lsn, ordinal))
            }
            Self::Idle => Err(SequenceError::Outside("change")),
        }
    }

    /// So many events of the open transaction were there before.
    pub const fn pass(&mut self, before: u64) {
        if let Self::Open { events, .. } = self {
            *events = before;
        }
    }

    /// How a row stands that is read here, before the next event.
    ///
    /// # Errors
    /// As [`Self::next_position`].
    pub const fn beside(&self) -> Result<Standing, SequenceError> {
        match self {
            Self::Open { begin, events } => Ok(Standing::Read(EventPosition::new(begin.final_lsn, *events))),
            Self::Idle => Err(SequenceError::Outside("row that was read")),
        }
    }

    /// Takes `Commit`; returns how many events the transaction had.
    ///
    /// # Errors
    /// When no transaction is open, or another one is.
    pub fn commit(&mut self, commit: &Commit) -> Result<u64, SequenceError> {
        match std::mem::take(self) {
            Self::Idle => Err(SequenceError::Outside("Commit")),
            Self::Open { begin, .. } if begin.final_lsn != commit.commit_lsn => {
                Err(SequenceError::CommitMismatch { announced: begin.final_lsn, found: commit.commit_lsn })
            }
            Self::Open { events, .. } => Ok(events),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::{PgTimestamp, Xid};

    fn begin(lsn: u64) -> Begin {
        Begin { final_lsn: Lsn::new(lsn), commit_time: PgTimestamp(0), xid: Xid(1) }
    }

    fn commit(lsn: u64) -> Commit {
        Commit { commit_lsn: Lsn::new(lsn), end_lsn: Lsn::new(lsn + 1), commit_time: PgTimestamp(0) }
    }

    #[test]
    fn events_are_numbered_inside_their_transaction() {
        let mut assembler = Assembler::default();
        for lsn in [10, 20] {
            assembler.begin(begin(lsn)).unwrap();
            for ordinal in 0..3 {
                let expected = EventPosition::new(Lsn::new(lsn), ordinal);
                assert_eq!(assembler.next_position(), Ok(expected));
            }
            assert_eq!(assembler.commit(&commit(lsn)), Ok(3));
        }
    }

    #[test]
    fn events_that_were_there_before_are_counted() {
        let mut assembler = Assembler::default();
        assembler.pass(7);
        assert_eq!(assembler.next_position(), Err(SequenceError::Outside("change")));
        assembler.begin(begin(10)).unwrap();
        assembler.pass(7);
        assert_eq!(assembler.next_position(), Ok(EventPosition::new(Lsn::new(10), 7)));
    }

    #[test]
    fn impossible_sequences_are_refused() {
        let mut assembler = Assembler::default();
        assert_eq!(assembler.next_position(), Err(SequenceError::Outside("change")));
        assert_eq!(assembler.commit(&commit(1)), Err(SequenceError::Outside("Commit")));
        assembler.begin(begin(10)).unwrap();
        assert_eq!(assembler.begin(begin(11)), Err(SequenceError::BeginInside(Lsn::new(11))));
        assert!(matches!(assembler.commit(&commit(11)), Err(SequenceError::CommitMismatch { .. })));
    }
}
