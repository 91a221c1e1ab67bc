//! Headers of records that were sent again.

/// Header with the number of times that a record was sent again from dead letters. It stays with the record, so that a loop
/// ends.
pub const REPLAY_COUNT: &str = "outboxd.replay.count";

/// Header with the place of the dead letter that the record was sent again from: `topic/partition/offset`.
pub const REPLAYED_FROM: &str = "outboxd.replay.from";

/// Returns how often a record was sent again, from its last [`REPLAY_COUNT`]; 0 without one. A count that cannot be read is
/// returned as `u32::MAX`, which is above any limit.
#[must_use]
pub fn replay_count<'h>(headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>) -> u32 {
    let last = headers.filter(|(name, _)| *name == REPLAY_COUNT).last();
    let Some((_, value)) = last else { return 0 };
    value.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()).unwrap_or(u32::MAX)
}
