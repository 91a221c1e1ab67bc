use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::signal::ChunkKey;
use crate::wal::Lsn;

/// A checkpoint as it is kept for another session, and maybe another process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct KeptCheckpoint {
    /// The signals of all transactions that commit before this are in it: those that come again are not heeded.
    pub(crate) heeded: Lsn,
    #[serde(flatten)]
    pub(crate) state: Checkpoint,
}

/// What is kept of incremental snapshots has at most so many bytes. Kafka takes records of about a megabyte, and there is more in them.
const BYTES_MAX: usize = 256 << 10;

impl KeptCheckpoint {
    /// Whether a record has room for it.
    pub(crate) fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|bytes| bytes.len() <= BYTES_MAX)
    }
}

/// How far incremental snapshots are: what another session has to know to go on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Checkpoint {
    /// The tables to read; the first is the one that is being read.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub(super) queue: VecDeque<Collection>,
    /// What the first one's rows up to here were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<ChunkKey>,
    /// Where the first one ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<ChunkKey>,
    /// Of which columns these two are the values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) columns: Option<Vec<String>>,
    /// Rows of the first one that were read, in so many chunks, of so many.
    pub(super) scanned: u64,
    pub(super) chunks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
    /// The signal that asked last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation: Option<String>,
    pub(super) paused: bool,
    /// Tables that are to be left out once the chunk that is being read has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stops: Vec<String>,
}

/// A table that is to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Collection {
    pub(crate) table: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) surrogate_key: Option<String>,
    /// The signal that asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) correlation: Option<String>,
}

impl Checkpoint {
    /// These tables are read, each from its beginning.
    pub(crate) fn of(tables: impl IntoIterator<Item = Collection>) -> Self {
        let queue: VecDeque<_> = tables.into_iter().collect();
        let correlation = queue.back().and_then(|last| last.correlation.clone());
        Self { queue, correlation, ..Self::default() }
    }

    /// Whether a snapshot is under way, or paused.
    pub(crate) fn is_running(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next table begins at its beginning.
    pub(super) fn forget_place(&mut self) {
        (self.sent, self.end, self.columns) = (None, None, None);
        (self.scanned, self.chunks, self.total) = (0, 0, None);
    }

    pub(super) fn tables(&self) -> String {
        self.queue.iter().map(|queued| queued.table.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// What counted from which place of the stream on, as far as that may still be asked for.
#[derive(Debug)]
pub(super) struct Checkpoints {
    first: Checkpoint,
    later: VecDeque<(Place, Checkpoint)>,
    /// How often something came to count for which the frontier need not have moved.
    beside: u64,
}

/// From where on something counts.
#[derive(Debug, Clone, Copy)]
struct Place {
    lsn: Lsn,
    /// It is between two transactions.
    is_beside: bool,
    /// Rows that were sent between two transactions: they may be on their way while everything before `lsn` is acknowledged. Then it
    /// counts once this ticket is settled.
    ticket: Option<usize>,
}

impl Checkpoints {
    pub(super) const fn new(first: Checkpoint) -> Self {
        Self { first, later: VecDeque::new(), beside: 0 }
    }

    /// From here on it is this.
    pub(super) fn keep(&mut self, lsn: Lsn, state: &Checkpoint) {
        self.push(Place { lsn, is_beside: false, ticket: None }, state);
    }

    /// The same between two transactions, once this ticket is settled.
    pub(super) fn keep_beside(&mut self, lsn: Lsn, ticket: Option<usize>, state: &Checkpoint) {
        self.push(Place { lsn, is_beside: true, ticket }, state);
    }

    fn push(&mut self, place: Place, state: &Checkpoint) {
        if self.last() != state {
            self.later.push_back((place, state.clone()));
        }
    }

    pub(super) const fn beside(&self) -> u64 {
        self.beside
    }

    /// What counts from the last place on.
    pub(super) fn last(&self) -> &Checkpoint {
        self.later.back().map_or(&self.first, |(_, last)| last)
    }

    /// What counts at `frontier`, when all tickets before `settled` are; it will not be asked for what was before.
    pub(super) fn at(&mut self, frontier: Lsn, settled: usize) -> &Checkpoint {
        let counts =
            |place: Place| place.lsn <= frontier && place.ticket.is_none_or(|ticket| ticket < settled);
        while self.later.front().is_some_and(|(place, _)| counts(*place)) {
            if let Some((place, state)) = self.later.pop_front() {
                self.first = state;
                self.beside = self.beside.wrapping_add(u64::from(place.is_beside));
            }
        }
        &self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_fixed() {
        let written = [
            r#"{"heeded":"0/10","scanned":0,"chunks":0,"paused":false}"#,
            r#"{"heeded":"0/10","queue":[{"table":"public.a","filter":"x > 1","surrogate_key":"y","correlation":"s-1"},{"table":"public.b"}],"sent":["7",null],"end":["900",null],"columns":["id 23","v 25"],"scanned":7,"chunks":2,"total":900,"correlation":"s-1","paused":true}"#,
        ];
        for text in written {
            let kept: KeptCheckpoint = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&kept).unwrap(), text);
        }
        let kept: KeptCheckpoint = serde_json::from_str(written[1]).unwrap();
        assert!(kept.state.is_running() && kept.heeded == Lsn::new(16));
        assert_eq!(kept.state.sent, Some(vec![Some("7".to_owned()), None]));
    }

    #[test]
    fn only_what_may_be_asked_for_is_kept() {
        let state = |scanned| Checkpoint { scanned, ..Checkpoint::default() };
        let mut checkpoints = Checkpoints::new(state(0));
        for (lsn, scanned) in [(10, 1), (20, 1), (30, 2), (40, 3)] {
            checkpoints.keep(Lsn::new(lsn), &state(scanned));
        }
        assert_eq!(checkpoints.later.len(), 3);
        let at = [9, 29, 30].map(|lsn| checkpoints.at(Lsn::new(lsn), 0).scanned);
        assert_eq!(at, [0, 1, 2]);
        assert_eq!(checkpoints.later.len(), 1);
    }

    #[test]
    fn rows_between_transactions_count_when_they_are_acknowledged() {
        let state = |scanned| Checkpoint { scanned, ..Checkpoint::default() };
        let mut checkpoints = Checkpoints::new(state(0));
        checkpoints.keep_beside(Lsn::new(10), Some(7), &state(1));
        checkpoints.keep(Lsn::new(20), &state(2));
        let at = [7, 8].map(|settled| checkpoints.at(Lsn::new(10), settled).scanned);
        assert_eq!(at, [0, 1], "everything before 10 is acknowledged in both cases");
        assert_eq!(checkpoints.beside(), 1);
        assert_eq!(checkpoints.at(Lsn::new(20), 8).scanned, 2);
    }
}
