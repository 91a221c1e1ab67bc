//! What the feed knows of signals: where they come from in the stream, the incremental snapshot, and its rows to send.

use std::collections::VecDeque;
use std::sync::Arc;

use super::options::Options;
use crate::change::{ChangeTable, Edge, Snapshot};
use crate::connect::NamePatterns;
use crate::pgoutput::{Begin, ColumnValue, Tuple};
use crate::signal::{
    Action, Answer, Ask, Blocking, ChunkKey, Incremental, KeptCheckpoint, Notification, ReadRow, Recent,
    ScanAsk, Scanned, ScannedRow, Sendable, Signal, SignalOptions, SnapshotKind, Values, Watermarks,
};
use crate::wal::{Lsn, Oid, Xid};

/// What the prefix of a logical message that is a watermark is.
pub(super) const MESSAGE_PREFIX: &str = "outboxd.snapshot";

/// That of a signal which came from a file or a topic, and is written to the WAL: so the stream brings it, like those of the table.
pub(super) const SIGNAL_PREFIX: &str = "outboxd.signal";

/// The signals of a session.
#[derive(Debug)]
pub(super) struct Signals {
    options: SignalOptions,
    pub(super) incremental: Incremental,
    blocking: Blocking,
    /// In which one reads tables.
    order: NamePatterns,
    /// The place and the transaction of the signal for which the stream waits.
    waits_at: (Lsn, Option<Xid>),
    /// The signalling table, once the stream has described it.
    relation: Option<Oid>,
    /// How the rows of the last chunk are sent.
    table: Option<ReadTable>,
    /// The table of the last row that a blocking snapshot has read.
    scanned: Option<ReadTable>,
    outgoing: Option<Outgoing>,
    /// A task is on its way.
    is_at_it: bool,
    recent: Recent,
}

/// A table whose rows were read.
#[derive(Debug, Clone)]
pub(super) struct ReadTable {
    pub(super) oid: Oid,
    /// For the columns in the order in which they were read.
    pub(super) bound: Arc<ChangeTable>,
}

/// What is to be done in the database.
#[derive(Debug)]
pub(super) enum Task {
    Chunk(Ask),
    Scan(ScanAsk),
}

/// What came of a task, and the table that it was about.
#[derive(Debug)]
pub(super) enum Done {
    Chunk { answer: Answer, table: Option<ReadTable> },
    Scan { scanned: Scanned, table: Option<ReadTable> },
}

/// Rows that were read and are to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Where the stream was when they became free.
    lsn: Lsn,
    /// The transaction that they are told as a part of.
    xid: Option<Xid>,
    rows: VecDeque<NextRow>,
}

#[derive(Debug)]
struct NextRow {
    table: ReadTable,
    values: Values,
    snapshot: Snapshot,
    /// Where it is in its chunk, when that is wanted.
    place: Option<ChunkKey>,
}

/// The next of them.
#[derive(Debug)]
pub(super) struct OutgoingRow {
    pub(super) table: ReadTable,
    pub(super) lsn: Lsn,
    pub(super) xid: Option<Xid>,
    pub(super) values: Values,
    pub(super) snapshot: Snapshot,
}

/// A change of the signalling table that may be a signal.
#[derive(Debug)]
pub(super) enum Said {
    /// A row was inserted.
    Row { id: String, kind: String, data: Option<String> },
    /// The row of a watermark was deleted.
    Deleted { id: String },
    /// A logical message: the id of a watermark.
    Message { id: String },
    /// A logical message: a signal.
    Document(String),
}

impl Said {
    /// Whether a logical message says it.
    pub(super) const fn is_message(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Document(_))
    }
}

impl Signals {
    /// Goes on from `kept`. `None` when nothing is heard.
    pub(super) fn new(
        options: &Options,
        tables: Vec<String>,
        order: &NamePatterns,
        kept: KeptCheckpoint,
    ) -> Option<Self> {
        if !options.signals.is_on() {
            return None;
        }
        let (rows, tells) = (options.signals.chunk_rows, options.notifications.is_on());
        let mut incremental = Incremental::new(rows, tells, new_id, kept);
        if let Some(table) = options.signals.table.as_ref().filter(|table| !tables.contains(table)) {
            tracing::warn!(
                table,
                "signal.data.collection: there is no such table, so that no signal can come from it: CREATE TABLE … (id varchar(64) \
                 PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))"
            );
        }
        let is_read = |table: &String| options.signals.table.as_ref() != Some(table);
        tables.into_iter().filter(is_read).for_each(|table| incremental.know(table));
        Some(Self {
            options: options.signals.clone(),
            incremental,
            blocking: Blocking::default(),
            order: order.clone(),
            waits_at: (Lsn::ZERO, None),
            relation: None,
            table: None,
            scanned: None,
            outgoing: None,
            is_at_it: false,
            recent: Recent::default(),
        })
    }

    /// The stream has described a captured table.
    pub(super) fn describe(&mut self, relation: Oid, name: &str) {
        if self.options.table.as_deref() != Some(name) {
            self.incremental.know(name.to_owned());
        } else if self.options.from_table {
            self.relation = Some(relation);
        }
    }

    /// A row of a table was inserted.
    pub(super) fn inserted(&self, relation: Oid, row: &Tuple<'_>) -> Option<Said> {
        if self.relation != Some(relation) {
            return None;
        }
        let text = |index: usize| text_of(row.columns().get(index)?);
        Some(Said::Row { id: text(0)?, kind: text(1)?, data: text(2) })
    }

    /// A row of a table was deleted.
    pub(super) fn deleted(&self, relation: Oid, row: &Tuple<'_>) -> Option<Said> {
        if self.relation != Some(relation) || self.options.watermarks != Watermarks::InsertDelete {
            return None;
        }
        Some(Said::Deleted { id: text_of(row.columns().first()?)? })
    }

    /// Whether the stream must wait before this.
    pub(super) fn awaits_rows(&self, said: &Said) -> bool {
        match said {
            Said::Row { id, kind, .. } => {
                kind == "snapshot-window-open" && self.incremental.awaits_rows_at(id)
            }
            Said::Message { id } => id.ends_with("-open") && self.incremental.awaits_rows_at(id),
            Said::Deleted { .. } | Said::Document(_) => false,
        }
    }

    /// A logical message came.
    pub(super) fn message(&self, prefix: &str, content: &[u8]) -> Option<Said> {
        // What is not UTF-8 is no signal either, and that is told where signals are read.
        let text = || String::from_utf8_lossy(content).into_owned();
        match prefix {
            MESSAGE_PREFIX => Some(Said::Message { id: text() }),
            SIGNAL_PREFIX => Some(Said::Document(text())),
            _ => None,
        }
    }

    /// Does what was said at `lsn`, in this transaction.
    pub(super) fn heed(&mut self, said: Said, lsn: Lsn, open: Option<Begin>) {
        if open.is_some_and(|open| self.incremental.has_heeded(open.final_lsn)) {
            return;
        }
        let signal = match said {
            Said::Row { id, kind, data } => Signal::parse(&id, &kind, data.as_deref()),
            Said::Document(document) => Signal::parse_document(&document),
            Said::Deleted { id } => return self.close(&id, lsn),
            Said::Message { id } if id.ends_with("-close") => return self.close(&id, lsn),
            Said::Message { .. } => return,
        };
        let signal = match signal {
            Ok(signal) => signal,
            Err(error) => {
                tracing::warn!(%lsn, %error, "a signal is passed over");
                return;
            }
        };
        tell(&signal);
        match &signal.action {
            Action::CloseWindow => self.close(&signal.id, lsn),
            Action::ExecuteSnapshot(request) if request.kind == SnapshotKind::Blocking => {
                self.blocking.execute(request, self.incremental.known(), &self.order);
                self.waits_at = (lsn, open.map(|open| open.xid));
            }
            _ => self.incremental.heed(&signal),
        }
    }

    /// What is to be done in the database next.
    pub(super) fn next_task(&mut self) -> Option<Task> {
        // One chunk at a time is held, and one is sent.
        if self.outgoing.is_some() || self.is_at_it {
            return None;
        }
        let scan = self.blocking.next_ask().map(Task::Scan);
        let task = scan.or_else(|| self.incremental.next_ask().map(Task::Chunk));
        self.is_at_it = task.is_some();
        task
    }

    /// Whether the stream must wait until rows are read and sent.
    pub(super) fn blocks_stream(&self) -> bool {
        self.blocking.is_running()
    }

    /// Takes what was done.
    pub(super) fn take(&mut self, done: Done) {
        self.is_at_it = false;
        match done {
            Done::Chunk { answer, table } => {
                self.table = table.or_else(|| self.table.take());
                self.incremental.answer(answer, &self.recent);
            }
            Done::Scan { scanned, table } => {
                let before = self.scanned.clone();
                if scanned.has_rows(&self.recent) && table.is_some() {
                    self.scanned = table;
                }
                let rows = self.blocking.answer(scanned, &self.recent);
                let (lsn, xid) = self.waits_at;
                let tables = [before, self.scanned.clone()];
                let rows: VecDeque<_> = rows.into_iter().filter_map(|row| marked(row, &tables)).collect();
                self.outgoing = (!rows.is_empty()).then_some(Outgoing { lsn, xid, rows });
            }
        }
    }

    /// The row that is to be sent next.
    pub(super) fn next_row(&mut self) -> Option<OutgoingRow> {
        let outgoing = self.outgoing.as_mut()?;
        match outgoing.rows.pop_front() {
            Some(NextRow { table, values, snapshot, place }) => {
                self.incremental.begin_row(place);
                let (lsn, xid) = (outgoing.lsn, outgoing.xid);
                Some(OutgoingRow { table, lsn, xid, values, snapshot })
            }
            None => {
                self.outgoing = None;
                None
            }
        }
    }

    /// The row is not sent yet.
    pub(super) fn put_back(&mut self, row: OutgoingRow) {
        if let Some(outgoing) = &mut self.outgoing {
            let OutgoingRow { table, values, snapshot, .. } = row;
            let place = self.incremental.take_row_back();
            outgoing.rows.push_front(NextRow { table, values, snapshot, place });
        }
    }

    /// A transaction of the stream has ended.
    pub(super) fn commit(&mut self, xid: u32, end_lsn: Lsn) {
        self.recent.add(xid);
        self.incremental.commit(end_lsn);
    }

    /// What is to be told next.
    pub(super) fn next_notification(&mut self) -> Option<Notification> {
        self.incremental.next_notification().or_else(|| self.blocking.next_notification())
    }

    /// Closes the window of a standby, where the stream has brought everything before this.
    pub(super) fn close_at(&mut self, reached: Lsn) {
        if let Some(sendable) = self.incremental.close_at(reached) {
            self.release(sendable, reached);
        }
    }

    fn close(&mut self, watermark: &str, lsn: Lsn) {
        if let Some(sendable) = self.incremental.close(watermark) {
            self.release(sendable, lsn);
        }
    }

    fn release(&mut self, sendable: Sendable, lsn: Lsn) {
        let table = self.table.clone().filter(|table| table.oid == sendable.table);
        if table.is_none() && !sendable.rows.is_empty() {
            tracing::error!(
                rows = sendable.rows.len(),
                "rows of an incremental snapshot are not sent: their table is not known"
            );
        }
        let rows = |table: ReadTable| sendable.rows.into_iter().map(|row| incremental(row, &table)).collect();
        self.outgoing = table.map(|table| Outgoing { lsn, xid: None, rows: rows(table) });
    }
}

fn incremental(row: ReadRow, table: &ReadTable) -> NextRow {
    NextRow { table: table.clone(), values: row.values, snapshot: Snapshot::Incremental, place: row.place }
}

/// Of a row that is one of the table before, or of the one that is read.
fn marked(row: ScannedRow, [before, current]: &[Option<ReadTable>; 2]) -> Option<NextRow> {
    let Some(table) = if row.is_of_table_before { before } else { current }.clone() else {
        tracing::error!("a row of a blocking snapshot is not sent: it is not known of which table it is");
        return None;
    };
    let of_row = Edge { first: row.first, last: row.last };
    let of_table = Edge { first: row.first_table, last: row.last_table };
    let snapshot = Snapshot::of(of_row, of_table);
    Some(NextRow { table, values: row.values, snapshot, place: None })
}

/// Tells of a signal. What its data holds is not told: a filter may hold values.
fn tell(signal: &Signal) {
    let id = &signal.id;
    match &signal.action {
        Action::Log(message) => tracing::info!(id, message, "signal: log"),
        Action::ExecuteSnapshot(request) => {
            let tables = request.collections.join(",");
            tracing::info!(id, tables, kind = ?request.kind, "signal: execute-snapshot");
        }
        Action::StopSnapshot(tables) => {
            tracing::info!(id, tables = tables.join(","), "signal: stop-snapshot");
        }
        Action::PauseSnapshot => tracing::info!(id, "signal: pause-snapshot"),
        Action::ResumeSnapshot => tracing::info!(id, "signal: resume-snapshot"),
        Action::SchemaChanges => {
            tracing::info!(id, "signal: schema-changes: nothing to do, the catalog says how tables are");
        }
        Action::OpenWindow | Action::CloseWindow => {}
    }
}

fn text_of(value: &ColumnValue<'_>) -> Option<String> {
    let ColumnValue::Text(bytes) = value else { return None };
    String::from_utf8(bytes.to_vec()).ok()
}

fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}
