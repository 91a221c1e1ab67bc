//! Methods of recognising repeats.

use crate::event::SequenceSource;

/// Method by which repeats of an event are recognized.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Dedupe {
    /// By the event's id, which is stored for the window. Recognizes every repeat within the window.
    #[default]
    Ids,
    /// By a number that grows by one with each event of a key. Detects missing events too: later events of the key wait in
    /// the table until the missing one arrives. The first event received of a key has its first number, unless
    /// `Inbox::first_number` sets it. Needs one row for each key, which is never deleted.
    Sequence(SequenceSource),
    /// By the event's position in the WAL of its database, from the relay's header `outboxd.position`. An event beyond all
    /// positions handled so far is new, and needs no lookup. Any other event is looked up by id among the events handled
    /// around its position. Needs a row for each transaction instead of one for each event.
    ///
    /// If positions cannot identify repeats (a record without a position, without a key, from another database, or not in
    /// the partition of its key since partitions were added), an error is logged, and from then on the topic's ids are
    /// compared.
    ///
    /// Unlike with ids, another event with the same id is a repeat, whatever its content. Needs the feature `position`,
    /// which is on by default.
    #[cfg(feature = "position")]
    Position,
}
