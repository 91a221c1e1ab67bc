//! The decision whether PostgreSQL has more than was read: it sets the pause before the next read and the pace of the producer.

use crate::wire::READ_BYTES;

/// A read of this many bytes means that the server has more: we are behind. So does a transaction that came late: a server that
/// decodes more slowly than we read gives little at a time, however much it still has.
const BEHIND_BYTES: usize = 16 * 1024;

/// Returns whether the relay is behind, and whether the next read waits. While it is behind, a full read is
/// followed by the next at once, any other by a rest.
pub(super) const fn load(bytes: usize, late: bool) -> (bool, bool) {
    let behind = bytes >= BEHIND_BYTES || late;
    (behind, behind && bytes < READ_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_that_comes_in_small_reads_is_one_too() {
        let expected = [
            (100, false, (false, false)),
            (100, true, (true, true)),
            (BEHIND_BYTES, false, (true, true)),
            (READ_BYTES, false, (true, false)),
            (READ_BYTES, true, (true, false)),
        ];
        for (bytes, late, load_of_it) in expected {
            assert_eq!(load(bytes, late), load_of_it, "{bytes} {late}");
        }
    }
}
