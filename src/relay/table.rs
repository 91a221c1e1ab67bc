use super::capture::NotSent;
use crate::outbox::OutboxTable;

/// What the rows of a relation are to us.
#[derive(Debug)]
pub(super) enum Table {
    /// An outbox: inserts become events.
    Outbox(Box<OutboxTable>),
    /// Not captured: its rows are counted.
    NotCaptured(NotSent),
}
