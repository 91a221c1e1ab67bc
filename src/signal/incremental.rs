use std::collections::VecDeque;

use super::condition::expand;
use super::notification::{Notification, SnapshotStatus};
use super::place::{Chunk, ChunkKey, ChunkRequest, NoChunk, ReadRow};
use super::window::{RowKey, Window};
use super::{Action, Recent, Signal, SnapshotKind, SnapshotRequest};
use crate::wal::{Lsn, Oid};

mod checkpoint;
mod control;
mod handed_over;
mod replayed;
mod telling;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod world;

use checkpoint::Checkpoints;
pub(crate) use checkpoint::{Checkpoint, Collection, KeptCheckpoint};
use handed_over::HandedOver;
use telling::TABLES;

/// The incremental snapshots of a session: one chunk of one table at a time.
///
/// A chunk is read between two watermarks. The stream waits at the first one until the rows are here. A row whose key it changes
/// behind that is taken out; at the second one the rest is sent. So nothing that is read comes behind something newer.
#[derive(Debug)]
pub(crate) struct Incremental {
    chunk_rows: usize,
    /// Whether somebody is told how far it is.
    tells: bool,
    new_id: fn() -> String,
    /// The names of the captured tables: what patterns stand for.
    known: Vec<String>,
    state: Checkpoint,
    checkpoints: Checkpoints,
    handed_over: HandedOver,
    /// The signals of what commits before this were heeded in an earlier session.
    heeded: Lsn,
    stage: Stage,
    /// Of the chunk: its watermarks carry it.
    id: String,
    /// On a standby: how far it had replayed before the chunk was read, and after it.
    low: Option<Lsn>,
    high: Option<Lsn>,
    /// The table that the window was opened for.
    opened_for: Option<(Option<String>, String)>,
    window: Window,
    /// The table of the window's rows.
    of: Option<(Oid, String)>,
    /// Behind the rows that were read last.
    read_to: Option<ChunkKey>,
    /// The last read did not see what the stream had sent: it is done again.
    again: bool,
    /// The stream has changed a row whose key it does not tell: any of the window's may be old.
    doubtful: bool,
    doubts: u32,
    notifications: VecDeque<Notification>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing runs.
    Idle,
    /// To be asked.
    Ask(Step),
    /// The answer is awaited.
    Asked(Step),
    /// The stream has to come to the second watermark.
    Filled,
    /// It has, before the answer came to the question that wrote it.
    Passed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Open,
    Read,
    Close,
}

/// What is to be done in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The first watermark of this chunk is to be written.
    Open { id: String, correlation: Option<String>, table: String },
    /// Rows are to be read.
    Read { request: ChunkRequest, again: bool },
    /// The second watermark.
    Close { id: String },
}

/// What has come of it.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The watermark is written.
    Written,
    /// A standby, which writes none, has replayed so far.
    Replayed(Lsn),
    /// Rows, or why there are none.
    Read(Result<Chunk, NoChunk>),
    /// The server does not let us write watermarks.
    Refused,
    /// The connection was lost: it is not known what was done.
    Lost,
}

/// Rows that may be sent now.
#[derive(Debug)]
pub(crate) struct Sendable {
    pub(crate) table: Oid,
    pub(crate) rows: VecDeque<ReadRow>,
}

impl Incremental {
    /// Goes on from `kept`.
    pub(crate) fn new(chunk_rows: usize, tells: bool, new_id: fn() -> String, kept: KeptCheckpoint) -> Self {
        let KeptCheckpoint { heeded, state } = kept;
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

    /// A captured table, by its name.
    pub(crate) fn know(&mut self, table: String) {
        if !self.known.contains(&table) {
            self.known.push(table);
        }
    }

    /// See [`Self::know`].
    pub(crate) fn known(&self) -> &[String] {
        &self.known
    }

    /// Does what a signal says that came in the stream.
    pub(crate) fn heed(&mut self, signal: &Signal) {
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

    /// What is to be done in the database next. It waits for the answer then.
    pub(crate) fn next_ask(&mut self) -> Option<Ask> {
        let Stage::Ask(step) = self.stage else { return None };
        let Some(ask) = self.ask(step) else {
            self.stage = Stage::Idle;
            return None;
        };
        self.stage = Stage::Asked(step);
        Some(ask)
    }

    /// Takes an answer. `sent` is what came in the stream before.
    pub(crate) fn answer(&mut self, answer: Answer, sent: &Recent) {
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

    /// Whether the stream, at the first watermark of a chunk, must wait for the chunk's rows.
    pub(crate) fn awaits_rows_at(&self, watermark: &str) -> bool {
        self.is_of_chunk(watermark) && self.lacks_rows()
    }

    /// Whether what waited for a chunk's rows must go on waiting.
    pub(crate) const fn lacks_rows(&self) -> bool {
        matches!(self.stage, Stage::Asked(Step::Open | Step::Read) | Stage::Ask(Step::Read))
    }

    /// The stream has changed the row of this key.
    pub(crate) fn changed(&mut self, table: &str, key: &RowKey) {
        if self.is_reading(table) {
            self.window.forget(key);
        }
    }

    /// The stream has changed a row of the table and does not tell its key.
    pub(crate) fn changed_unknown(&mut self, table: &str) {
        self.doubtful |= self.is_reading(table);
    }

    /// The stream has emptied the table.
    pub(crate) fn truncated(&mut self, table: &str) {
        if self.is_reading(table) {
            self.window.clear();
        }
    }

    /// Whether rows of this table are in the window.
    pub(crate) fn is_reading(&self, table: &str) -> bool {
        self.of.as_ref().is_some_and(|(_, name)| name == table)
    }

    /// The stream has come to the second watermark of a chunk: its rows are to be sent there.
    pub(crate) fn close(&mut self, watermark: &str) -> Option<Sendable> {
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

    /// A transaction of the stream ends here, and what it has changed counts from here on.
    pub(crate) fn commit(&mut self, end_lsn: Lsn) {
        self.checkpoints.keep(end_lsn, &self.state);
        self.handed_over.end_transaction(end_lsn);
    }

    /// Where a session goes on that begins here. All tickets before `settled` are.
    pub(crate) fn at(&mut self, frontier: Lsn, settled: usize) -> KeptCheckpoint {
        let heeded = self.heeded.max(frontier);
        KeptCheckpoint { heeded, state: self.checkpoints.at(frontier, settled).clone() }
    }

    /// Whether what a transaction says that commits here counts already.
    pub(crate) fn has_heeded(&self, commit_lsn: Lsn) -> bool {
        commit_lsn < self.heeded
    }

    /// No session will begin before this.
    pub(crate) fn forget_before(&mut self, frontier: Lsn, settled: usize) {
        self.checkpoints.at(frontier, settled);
    }

    /// What is to be told next.
    pub(crate) fn next_notification(&mut self) -> Option<Notification> {
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
        self.tell(SnapshotStatus::Started, vec![(TABLES, tables.clone())]);
        self.tell(SnapshotStatus::CollectionsResolved, vec![(TABLES, tables)]);
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

    /// The window is opened anew: nobody waits for the old one.
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
            // A transaction that the stream has sent is not seen yet by those who read.
            Ok(chunk) if !sent.are_seen_by(&chunk.visible) => {
                self.again = true;
                self.stage = Stage::Ask(Step::Read);
            }
            Ok(Chunk { table: oid, rows, last: Some(last), end, total, columns, .. }) => {
                if self.state.columns.as_ref().is_some_and(|before| *before != columns) {
                    tracing::warn!(
                        table,
                        "incremental snapshot: the table has another key now, and is read from its beginning"
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
                self.tell_progress();
                self.stage = Stage::Ask(Step::Close);
            }
            Ok(_) => self.table_ends("SUCCEEDED"),
            Err(reason) => {
                tracing::warn!(
                    table,
                    status = reason.status(),
                    "incremental snapshot: the table is not read"
                );
                self.table_ends(reason.status());
            }
        }
    }

    /// Goes on with the next table, in the same window.
    fn table_ends(&mut self, status: &str) {
        self.tell_scan(status);
        self.state.queue.pop_front();
        self.state.forget_place();
        self.stage = Stage::Ask(Step::Read);
        if !self.state.is_running() {
            self.tell(SnapshotStatus::Completed, Vec::new());
            self.state.correlation = None;
            self.stage = Stage::Ask(Step::Close);
        }
    }

    /// Watermarks cannot be written: none of the tables can be read.
    fn give_up(&mut self) {
        self.window.clear();
        (self.of, self.read_to) = (None, None);
        self.tell_scan(NoChunk::Failed.status());
        self.state.queue.pop_front();
        self.state.forget_place();
        if !self.state.is_running() {
            self.tell(SnapshotStatus::Completed, Vec::new());
            self.state.correlation = None;
        }
        self.start_chunk();
    }

    /// Whether the chunk is read again, because its rows may be old. There is an end to that: else a table that changes all the
    /// time would never be read.
    fn is_read_again(&mut self) -> bool {
        let is_doubtful = std::mem::take(&mut self.doubtful);
        self.doubts = if is_doubtful { self.doubts.saturating_add(1) } else { 0 };
        if self.doubts > DOUBTS_MAX {
            let table = self.state.queue.front().map_or("", |front| front.table.as_str());
            tracing::warn!(
                table,
                "incremental snapshot: the stream does not tell the keys of rows that change, because the replica identity has not \
                 the key's columns: a row that was read may be sent behind a newer one"
            );
        }
        (1..=DOUBTS_MAX).contains(&self.doubts)
    }

    fn is_of_chunk(&self, watermark: &str) -> bool {
        !self.id.is_empty() && watermark.starts_with(&self.id)
    }
}

/// How often a chunk is read again.
const DOUBTS_MAX: u32 = 8;
