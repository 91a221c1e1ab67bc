use std::collections::VecDeque;

use crate::signal::ChunkKey;
use crate::wal::Lsn;

/// How far incremental snapshots are: what another session has to know to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Checkpoint {
    /// The tables to read; the first is the one that is being read.
    pub(super) queue: VecDeque<Collection>,
    /// What the first one's rows up to here were sent.
    pub(super) sent: Option<ChunkKey>,
    /// Where the first one ends.
    pub(super) end: Option<ChunkKey>,
    /// Rows of the first one that were read, in so many chunks, of so many.
    pub(super) scanned: u64,
    pub(super) chunks: u64,
    pub(super) total: Option<u64>,
    /// The signal that asked last.
    pub(super) correlation: Option<String>,
    pub(super) paused: bool,
}

/// A table that is to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collection {
    pub(super) table: String,
    pub(super) filter: Option<String>,
    pub(super) surrogate_key: Option<String>,
    /// The signal that asked for it.
    pub(super) correlation: Option<String>,
}

impl Checkpoint {
    /// Whether a snapshot is under way, or paused.
    pub(crate) fn is_running(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next table begins at its beginning.
    pub(super) fn forget_place(&mut self) {
        (self.sent, self.end, self.scanned, self.chunks, self.total) = (None, None, 0, 0, None);
    }

    pub(super) fn tables(&self) -> String {
        self.queue.iter().map(|queued| queued.table.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// What counted from which place of the stream on, as far as that may still be asked for.
#[derive(Debug)]
pub(super) struct Checkpoints {
    first: Checkpoint,
    later: VecDeque<(Lsn, Checkpoint)>,
}

impl Checkpoints {
    pub(super) const fn new(first: Checkpoint) -> Self {
        Self { first, later: VecDeque::new() }
    }

    /// From here on it is this.
    pub(super) fn keep(&mut self, lsn: Lsn, state: &Checkpoint) {
        let last = self.later.back().map_or(&self.first, |(_, last)| last);
        if last != state {
            self.later.push_back((lsn, state.clone()));
        }
    }

    /// What counts at `frontier`; it will not be asked for what was before.
    pub(super) fn at(&mut self, frontier: Lsn) -> &Checkpoint {
        while self.later.front().is_some_and(|(lsn, _)| *lsn <= frontier) {
            if let Some((_, state)) = self.later.pop_front() {
                self.first = state;
            }
        }
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_be_asked_for_is_kept() {
        let state = |scanned| Checkpoint { scanned, ..Checkpoint::default() };
        let mut checkpoints = Checkpoints::new(state(0));
        for (lsn, scanned) in [(10, 1), (20, 1), (30, 2), (40, 3)] {
            checkpoints.keep(Lsn::new(lsn), &state(scanned));
        }
        assert_eq!(checkpoints.later.len(), 3);
        let at = [9, 29, 30].map(|lsn| checkpoints.at(Lsn::new(lsn)).scanned);
        assert_eq!(at, [0, 1, 2]);
        assert_eq!(checkpoints.later.len(), 1);
    }
}
