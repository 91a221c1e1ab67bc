use crate::event::SequenceSource;

/// How a repeat is known.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Dedupe {
    /// By the event's id, which is remembered for the window. Knows whatever comes again.
    #[default]
    Ids,
    /// By a number that grows by one with each event of a key. Knows what is missing too: later events of the key wait in the
    /// table until it has come. The first event that comes of a key has its first number. Needs one row for each key, for
    /// ever.
    Sequence(SequenceSource),
    /// By where the event stands in the WAL of its database, as the relay's header `outboxd.position` tells. What stands beyond
    /// everything that was done is new, without a look; what does not is looked up by id in what was done around that
    /// position. A row for each transaction instead of one for each event.
    ///
    /// When positions do not tell repeats (a record without one, without a key, from another database, or not in the partition
    /// of its key since partitions were added), that is logged as an error, and from then on the topic's ids are asked.
    ///
    /// Unlike by ids, another event with the same id is a repeat, whatever its content. Needs the feature `position`, which is on by default.
    #[cfg(feature = "position")]
    Position,
}
