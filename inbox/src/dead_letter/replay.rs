/// How often a record was sent again from dead letters. It stays with the record, so that a loop comes to an end.
pub const REPLAY_COUNT: &str = "outboxd.replay.count";

/// The letter that the record was sent again from: `topic/partition/offset`.
pub const REPLAYED_FROM: &str = "outboxd.replay.from";

/// How often a record was sent again, by its last [`REPLAY_COUNT`]. One that cannot be read is more than any limit.
#[must_use]
pub fn replay_count<'h>(headers: impl Iterator<Item = (&'h str, Option<&'h [u8]>)>) -> u32 {
    let last = headers.filter(|(name, _)| *name == REPLAY_COUNT).last();
    let Some((_, value)) = last else { return 0 };
    value.and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok()).unwrap_or(u32::MAX)
}
