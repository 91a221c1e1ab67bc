//! Progress of incremental snapshots.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::signal::ChunkKey;
use pg_replication::wal::Lsn;

/// A checkpoint in stored form, for a later session or another process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoredCheckpoint {
    /// The LSN before which the signals of all transactions are included: they are ignored when they come
    /// again.
    pub heeded: Lsn,
    /// The snapshot that is under way, and its queue.
    #[serde(flatten)]
    pub state: Checkpoint,
}

/// Size of the largest stored checkpoint, in bytes. Kafka accepts records of about a megabyte, which also
/// have other parts.
const BYTES_MAX: usize = 256 << 10;

impl StoredCheckpoint {
    /// Reports whether the checkpoint fits in a record.
    pub fn fits(&self) -> bool {
        serde_json::to_vec(self).is_ok_and(|bytes| bytes.len() <= BYTES_MAX)
    }
}

/// The progress of incremental snapshots, from which another session can continue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// The tables to read; the first one is in progress.
    #[serde(skip_serializing_if = "VecDeque::is_empty")]
    pub(super) queue: VecDeque<Collection>,
    /// The chunk key up to which rows of the first table were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sent: Option<ChunkKey>,
    /// The chunk key at which the first table ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) end: Option<ChunkKey>,
    /// The columns of these two chunk keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) columns: Option<Vec<String>>,
    /// The number of rows of the first table that were read, in `chunks` chunks. `total` is the number of all
    /// its rows, if it is known.
    pub(super) scanned: u64,
    pub(super) chunks: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) total: Option<u64>,
    /// The id of the last signal that requested a snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation: Option<String>,
    pub(super) paused: bool,
    /// The tables to remove from the queue at the end of the present chunk.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) stops: Vec<String>,
}

/// A table of an incremental snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collection {
    /// `schema.table`
    pub table: String,
    /// The condition for its rows, as SQL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The column that chunks are cut by instead of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surrogate_key: Option<String>,
    /// The id of the signal that requested it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation: Option<String>,
}

impl Checkpoint {
    /// Returns the checkpoint before the first row of these tables.
    pub fn of(tables: impl IntoIterator<Item = Collection>) -> Self {
        let queue: VecDeque<_> = tables.into_iter().collect();
        let correlation = queue.back().and_then(|last| last.correlation.clone());
        Self { queue, correlation, ..Self::default() }
    }

    /// Reports whether a snapshot is running or paused.
    pub fn is_running(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Resets the progress of the first table.
    pub(super) fn forget_place(&mut self) {
        (self.sent, self.end, self.columns) = (None, None, None);
        (self.scanned, self.chunks, self.total) = (0, 0, None);
    }

    pub(super) fn tables(&self) -> String {
        self.queue.iter().map(|queued| queued.table.as_str()).collect::<Vec<_>>().join(",")
    }
}

/// Checkpoints by position in the stream, as far as they may still be needed.
#[derive(Debug)]
pub(super) struct Checkpoints {
    first: Checkpoint,
    later: VecDeque<(Place, Checkpoint)>,
    /// The number of checkpoints between two transactions that have come into effect, for which the frontier
    /// need not have moved.
    beside: u64,
}

/// The position from which a checkpoint applies.
#[derive(Debug, Clone, Copy)]
struct Place {
    lsn: Lsn,
    /// True if it is between two transactions.
    is_beside: bool,
    /// The ticket of rows that were sent between two transactions, if there are any. They may be in flight
    /// while everything before `lsn` is acknowledged, so the checkpoint applies only once this ticket is
    /// settled.
    ticket: Option<usize>,
}

impl Checkpoints {
    pub(super) const fn new(first: Checkpoint) -> Self {
        Self { first, later: VecDeque::new(), beside: 0 }
    }

    /// Adds the checkpoint from the end of a transaction on.
    pub(super) fn keep(&mut self, lsn: Lsn, state: &Checkpoint) {
        self.push(Place { lsn, is_beside: false, ticket: None }, state);
    }

    /// Adds the checkpoint from a position between two transactions on, once this ticket is settled.
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

    /// Returns the latest checkpoint.
    pub(super) fn last(&self) -> &Checkpoint {
        self.later.back().map_or(&self.first, |(_, last)| last)
    }

    /// Returns the checkpoint at `frontier`, when all tickets before `settled` are settled. Discards those
    /// before it.
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
            let kept: StoredCheckpoint = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&kept).unwrap(), text);
        }
        let kept: StoredCheckpoint = serde_json::from_str(written[1]).unwrap();
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
