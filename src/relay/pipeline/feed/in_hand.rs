//! Handling of one row change, which may have to wait and begin again.

use super::{Again, Feed};
use crate::kafka::Transport;
use crate::relay::error::Error;
use crate::transaction::EventPosition;
use crate::wal::Lsn;

/// One handling of a row change: the first, or another one after a wait.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) lsn: Lsn,
    pub(super) position: EventPosition,
    /// Error of the wait before.
    pub(super) refused: Option<Error>,
    /// True for the first handling.
    pub(super) is_new: bool,
    /// True if the stored offset describes the change as sent.
    pub(super) sent_before: bool,
}

impl<T: Transport> Feed<'_, T> {
    /// Begins or repeats the handling of the change at `lsn`. Only the first one counts it.
    pub(super) fn next_attempt(&mut self, lsn: Lsn) -> Result<Attempt, Error> {
        let again = self.out.again.take();
        let is_new = again.is_none();
        let Again { position, refused } = again.map_or_else(|| self.next_event(lsn), Ok)?;
        let sent_before = is_new && self.was_sent_before(lsn);
        Ok(Attempt { lsn, position, refused, is_new, sent_before })
    }
}
