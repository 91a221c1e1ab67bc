//! The current message: the position of its event in the stream, and the answers that were requested for it.
//!
//! A message that lacks something is given again once that is there. Until then nothing of it is counted, so that every handling of it
//! finds the same state.

use super::{Feed, Outcome};
use crate::change::Reselected;
use crate::error::{Diagnose as _, Exit};
use crate::kafka::Transport;
use crate::registry;
use crate::relay::error::Error;
use crate::transaction::{EventPosition, SequenceError};
use crate::wal::Lsn;

/// Place of a message's event in the stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamEvent {
    pub(super) lsn: Lsn,
    pub(super) position: EventPosition,
    /// True if the stored offset describes it as sent.
    pub(super) sent_before: bool,
}

/// Answers about the current message, until it is done.
#[derive(Debug, Default)]
pub(super) struct Answers {
    /// Present values of its row.
    pub(super) values: Option<Reselected>,
    /// The registry's refusal of its schema.
    pub(super) refused: Option<Error>,
}

impl<T: Transport> Feed<'_, T> {
    /// Returns the place of the change or message at `lsn`, which [`Self::end_event`] counts.
    pub(super) fn stream_event(&mut self, lsn: Lsn) -> Result<StreamEvent, SequenceError> {
        let position = self.place.assembler.next_position(lsn)?;
        self.out.flight.count_event(position);
        let sent_before = self.earlier.has_row(lsn);
        Ok(StreamEvent { lsn, position, sent_before })
    }

    /// Counts the event at `lsn`, unless its message is given again.
    pub(super) fn end_event(&mut self, lsn: Lsn, outcome: &Outcome) {
        if outcome.is_lack() {
            return;
        }
        self.place.assembler.advance(lsn);
        self.earlier.pass_row(lsn);
        self.answers = Answers::default();
    }

    /// Records that the registry has no id for the schema of the current message, which is given up then.
    ///
    /// # Errors
    /// The same, unless this is about the row.
    pub(in crate::relay) fn refuse(&mut self, error: registry::Error) -> Result<(), Error> {
        if error.exit() != Exit::Row {
            return Err(error.into());
        }
        self.answers.refused = Some(error.into());
        Ok(())
    }
}
