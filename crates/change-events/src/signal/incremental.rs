//! Incremental snapshots.

use std::collections::VecDeque;

use super::condition::expand;
use super::notification::{Notification, SnapshotStatus};
use super::place::{Chunk, ChunkKey, ChunkRequest, NoChunk};
use super::window::{RowKey, Window};
use super::{Action, Recent, Signal, SnapshotKind, SnapshotRequest};
use pg_replication::wal::{Lsn, Oid};

mod ask;
mod checkpoint;
mod control;
mod handed_over;
mod replayed;
mod telling;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

pub use ask::{Answer, Ask, Sendable};
use checkpoint::Checkpoints;
pub use checkpoint::{Checkpoint, Collection, StoredCheckpoint};
use handed_over::HandedOver;
use telling::TABLES;

/// The incremental snapshots of a session: one chunk of one table at a time.
///
/// A chunk is read between two watermarks. The stream waits at the first one until the rows have been read. A
/// row whose key the stream changes after that is removed; at the second watermark the remaining rows are
/// sent. So no row of a chunk follows a newer version of itself.
#[derive(Debug)]
pub struct Incremental {
    chunk_rows: usize,
    /// True if notifications are enabled.
    tells: bool,
    new_id: fn() -> String,
    /// The names of the captured tables, against which patterns are matched.
    known: Vec<String>,
    state: Checkpoint,
    checkpoints: Checkpoints,
    handed_over: HandedOver,
    /// The LSN before which all signals were executed in an earlier session.
    heeded: Lsn,
    stage: Stage,
    /// The id of the chunk, with which its watermarks begin.
    id: String,
    /// The replay positions of a standby before the chunk was read (`low`) and after it (`high`).
    low: Option<Lsn>,
    high: Option<Lsn>,
    /// The signal's id and the table for which the window was opened.
    opened_for: Option<(Option<String>, String)>,
    window: Window,
    /// The table of the window's rows.
    of: Option<(Oid, String)>,
    /// The chunk key of the last row that was read.
    read_to: Option<ChunkKey>,
    /// True if the last read did not see all transactions that the stream had sent, and is repeated.
    again: bool,
    /// True if the stream has changed a row without sending its key: any row of the window may be old.
    doubtful: bool,
    doubts: u32,
    notifications: VecDeque<Notification>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No chunk is in progress.
    Idle,
    /// The step is the next to be requested.
    Ask(Step),
    /// The step was requested; its answer is pending.
    Asked(Step),
    /// The chunk is read; the second watermark is pending in the stream.
    Filled,
    /// The second watermark has arrived before the answer to its request.
    Passed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Open,
    Read,
    Close,
}

impl Incremental {
    /// Continues from the stored checkpoint. `chunk_rows` is the number of rows of a chunk.
    pub fn new(chunk_rows: usize, tells: bool, new_id: fn() -> String, kept: StoredCheckpoint) -> Self {
        let StoredCheckpoint { heeded, state } = kept;
        let mut new = Self {
            chunk_rows,
            tells,
            new_id,
            known: Vec::new(),
            checkpoints: Checkpoints::new(state.clone()),
            handed_over: HandedOver::new(heeded),
            heeded,
            state,
            stage: Stage::Idle,
            id: String::new(),
            low: None,
            high: None,
            opened_for: None,
            window: Window::default(),
            of: None,
            read_to: None,
            again: false,
            doubtful: false,
            doubts: 0,
            notifications: VecDeque::new(),
        };
        new.start_chunk();
        new
    }

    /// Adds a captured table, by its name.
    pub fn know(&mut self, table: String) {
        if !self.known.contains(&table) {
            self.known.push(table);
        }
    }

    /// Returns the names of the captured tables, see [`Self::know`].
    pub fn known(&self) -> &[String] {
        &self.known
    }

    /// Executes a signal of the stream.
    pub fn apply(&mut self, signal: &Signal) {
        match &signal.action {
            Action::ExecuteSnapshot(request) if request.kind == SnapshotKind::Incremental => {
                self.execute(&signal.id, request);
            }
            Action::StopSnapshot(tables) => self.stop(tables),
            Action::PauseSnapshot => self.pause(),
            Action::ResumeSnapshot => self.resume(),
            _ => {}
        }
    }

    /// Returns the next action in the database, if there is one. No further one is returned before its answer.
    pub fn next_ask(&mut self) -> Option<Ask> {
        let Stage::Ask(step) = self.stage else { return None };
        let Some(ask) = self.ask(step) else {
            self.stage = Stage::Idle;
            return None;
        };
        self.stage = Stage::Asked(step);
        Some(ask)
    }

    /// Accepts an answer. `sent` is the list of transactions that the stream has sent before.
    pub fn answer(&mut self, answer: Answer, sent: &Recent) {
        let stage = self.stage;
        match (stage, answer) {
            (Stage::Passed, _) => self.start_chunk(),
            (Stage::Asked(Step::Open), Answer::Written) => self.stage = Stage::Ask(Step::Read),
            (Stage::Asked(Step::Close), Answer::Written) => self.stage = Stage::Filled,
            (Stage::Asked(step), Answer::Replayed(lsn)) => self.replayed(step, lsn),
            (Stage::Asked(Step::Read), Answer::Read(read)) => self.read(read, sent),
            (Stage::Asked(_), Answer::Refused) => self.give_up(),
            (Stage::Asked(_), Answer::Lost) => self.restart(),
            _ => {}
        }
    }

    /// Reports whether the stream, at the first watermark of a chunk, must wait for the chunk's rows.
    pub fn awaits_rows_at(&self, watermark: &str) -> bool {
        self.is_of_chunk(watermark) && self.lacks_rows()
    }

    /// Reports whether the stream, which waits for a chunk's rows, must continue to wait.
    pub const fn lacks_rows(&self) -> bool {
        matches!(self.stage, Stage::Asked(Step::Open | Step::Read) | Stage::Ask(Step::Read))
    }

    /// Removes the row with this key from the window, because the stream has changed it.
    pub fn changed(&mut self, table: &str, key: &RowKey) {
        if self.is_reading(table) {
            self.window.forget(key);
        }
    }

    /// Marks the window as possibly old: the stream has changed a row of the table without sending its key.
    pub fn changed_unknown(&mut self, table: &str) {
        self.doubtful |= self.is_reading(table);
    }

    /// Discards the rows of the window, because the stream has truncated the table.
    pub fn truncated(&mut self, table: &str) {
        if self.is_reading(table) {
            self.window.clear();
        }
    }

    /// Reports whether the window has rows of this table.
    pub fn is_reading(&self, table: &str) -> bool {
        self.of.as_ref().is_some_and(|(_, name)| name == table)
    }

    /// Closes the window at the second watermark of a chunk; returns its rows, which must be sent there.
    pub fn close(&mut self, watermark: &str) -> Option<Sendable> {
        if !self.is_of_chunk(watermark) || !matches!(self.stage, Stage::Filled | Stage::Asked(Step::Close)) {
            return None;
        }
        self.end_window()
    }

    fn end_window(&mut self) -> Option<Sendable> {
        self.id.clear();
        let mut rows = self.window.take();
        self.handed_over.begin_chunk(self.state.clone());
        let read_to = self.read_to.take();
        if self.is_read_again() {
            rows.clear();
        } else {
            self.state.sent = read_to.or_else(|| self.state.sent.take());
        }
        let of = self.of.take();
        match self.stage {
            Stage::Filled => self.start_chunk(),
            _ => self.stage = Stage::Passed,
        }
        of.map(|(table, _)| Sendable { table, rows })
    }

    /// Ends a transaction of the stream. The present state applies from its end LSN on.
    pub fn commit(&mut self, end_lsn: Lsn) {
        self.checkpoints.keep(end_lsn, &self.state);
        self.handed_over.end_transaction(end_lsn);
    }

    /// Returns the checkpoint of a session that would begin at `frontier`, when all tickets before `settled`
    /// are settled.
    pub fn at(&mut self, frontier: Lsn, settled: usize) -> StoredCheckpoint {
        let heeded = self.heeded.max(frontier);
        StoredCheckpoint { heeded, state: self.checkpoints.at(frontier, settled).clone() }
    }

    /// Reports whether the signals of a transaction with this commit LSN were executed in an earlier session.
    pub fn has_heeded(&self, commit_lsn: Lsn) -> bool {
        commit_lsn < self.heeded
    }

    /// Discards the checkpoints before `frontier`: no session will begin there.
    pub fn forget_before(&mut self, frontier: Lsn, settled: usize) {
        self.checkpoints.at(frontier, settled);
    }

    /// Removes and returns the next notification.
    pub fn next_notification(&mut self) -> Option<Notification> {
        self.notifications.pop_front()
    }

    fn execute(&mut self, id: &str, request: &SnapshotRequest) {
        let was_running = self.state.is_running();
        for table in expand(&request.collections, &self.known) {
            let filter = request.conditions.iter().find_map(|condition| condition.of(&table));
            self.state.queue.push_back(Collection {
                filter: filter.map(str::to_owned).filter(|filter| !filter.is_empty()),
                surrogate_key: request.surrogate_key.clone(),
                correlation: Some(id.to_owned()),
                table,
            });
        }
        self.state.correlation = Some(id.to_owned());
        if was_running {
            return;
        }
        self.state.forget_place();
        let tables = self.state.tables();
        self.report(SnapshotStatus::Started, vec![(TABLES, tables.clone())]);
        self.report(SnapshotStatus::CollectionsResolved, vec![(TABLES, tables)]);
        if self.stage == Stage::Idle {
            self.start_chunk();
        }
    }

    fn start_chunk(&mut self) {
        self.take_stops();
        if !self.state.is_running() || self.state.paused {
            self.stage = Stage::Idle;
            return;
        }
        self.id = (self.new_id)();
        (self.low, self.high) = (None, None);
        self.stage = Stage::Ask(Step::Open);
        let front = self.state.queue.front();
        self.opened_for = front.map(|front| (front.correlation.clone(), front.table.clone()));
    }

    /// Discards the window and opens another one; the watermarks of the old one are ignored.
    fn restart(&mut self) {
        self.window.clear();
        (self.of, self.read_to) = (None, None);
        self.start_chunk();
    }

    fn ask(&self, step: Step) -> Option<Ask> {
        let id = self.id.clone();
        match step {
            Step::Open => {
                let (correlation, table) = self.opened_for.clone()?;
                Some(Ask::Open { id, correlation, table })
            }
            Step::Close => Some(Ask::Close { id }),
            Step::Read => {
                let front = self.state.queue.front()?;
                let request = ChunkRequest {
                    table: front.table.clone(),
                    filter: front.filter.clone(),
                    surrogate_key: front.surrogate_key.clone(),
                    after: self.state.sent.clone(),
                    end: self.state.end.clone(),
                    columns: self.state.columns.clone(),
                    rows_max: self.chunk_rows,
                    counts: self.tells && self.state.total.is_none(),
                };
                Some(Ask::Read { request, again: self.again })
            }
        }
    }

    fn read(&mut self, read: Result<Chunk, NoChunk>, sent: &Recent) {
        let Some(table) = self.state.queue.front().map(|front| front.table.clone()) else {
            self.stage = Stage::Ask(Step::Close);
            return;
        };
        self.again = false;
        match read {
            // The reading transaction does not see all transactions that the stream has sent.
            Ok(chunk) if !sent.are_seen_by(&chunk.visible) => {
                self.again = true;
                self.stage = Stage::Ask(Step::Read);
            }
            Ok(Chunk { table: oid, rows, last: Some(last), end, total, columns, .. }) => {
                if self.state.columns.as_ref().is_some_and(|before| *before != columns) {
                    tracing::warn!(
                        table,
                        "incremental snapshot: the key of the table has changed; reading it from its \
                         beginning"
                    );
                    self.state.forget_place();
                }
                self.state.columns = Some(columns);
                let rows_read = u64::try_from(rows.len()).unwrap_or(u64::MAX);
                self.state.scanned = self.state.scanned.saturating_add(rows_read);
                self.state.chunks = self.state.chunks.saturating_add(1);
                (self.state.end, self.read_to) = (Some(end), Some(last));
                self.state.total = self.state.total.or(total);
                self.window = Window::new(rows);
                self.of = Some((oid, table));
                self.report_progress();
                self.stage = Stage::Ask(Step::Close);
            }
            Ok(_) => self.table_ends("SUCCEEDED"),
            Err(reason) => {
                tracing::warn!(table, status = reason.status(), "incremental snapshot: the table is skipped");
                self.table_ends(reason.status());
            }
        }
    }

    /// Ends the present table and continues with the next one, in the same window.
    fn table_ends(&mut self, status: &str) {
        self.report_scan(status);
        self.state.queue.pop_front();
        self.state.forget_place();
        self.stage = Stage::Ask(Step::Read);
        if !self.state.is_running() {
            self.report(SnapshotStatus::Completed, Vec::new());
            self.state.correlation = None;
            self.stage = Stage::Ask(Step::Close);
        }
    }

    /// Skips the present table, because watermarks cannot be written.
    fn give_up(&mut self) {
        self.window.clear();
        (self.of, self.read_to) = (None, None);
        self.report_scan(NoChunk::Failed.status());
        self.state.queue.pop_front();
        self.state.forget_place();
        if !self.state.is_running() {
            self.report(SnapshotStatus::Completed, Vec::new());
            self.state.correlation = None;
        }
        self.start_chunk();
    }

    /// Reports whether the chunk must be read again, because its rows may be old. The number of repetitions
    /// is limited: otherwise a table that changes continuously would never be finished.
    fn is_read_again(&mut self) -> bool {
        let is_doubtful = std::mem::take(&mut self.doubtful);
        self.doubts = if is_doubtful { self.doubts.saturating_add(1) } else { 0 };
        if self.doubts > DOUBTS_MAX {
            let table = self.state.queue.front().map_or("", |front| front.table.as_str());
            tracing::warn!(
                table,
                "incremental snapshot: the replica identity lacks columns of the key, so the stream has \
                 no keys of changed rows: a row of the snapshot may be sent after a newer one"
            );
        }
        (1..=DOUBTS_MAX).contains(&self.doubts)
    }

    fn is_of_chunk(&self, watermark: &str) -> bool {
        !self.id.is_empty() && watermark.starts_with(&self.id)
    }
}

/// Number of times that a chunk is read again.
const DOUBTS_MAX: u32 = 8;
