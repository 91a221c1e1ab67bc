//! Signals in the feed: their sources in the stream, the incremental snapshot, and its rows to send.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::change::{ChangeTable, Edge, Snapshot};
use crate::connect::NamePatterns;
use crate::pgoutput::{Begin, ColumnValue, Tuple};
use crate::relay::options::Options;
use crate::signal::{
    Action, Answer, Ask, Blocking, ChunkKey, Incremental, Notification, ReadRow, Recent, ScanAsk, Scanned,
    ScannedRow, Sendable, Signal, SignalOptions, SnapshotKind, StoredCheckpoint, Values, Watermarks,
};
use crate::wal::{Lsn, Oid, Xid};

/// Prefix of a logical message that is a watermark.
pub(in crate::relay) const MESSAGE_PREFIX: &str = "outboxd.snapshot";

/// Prefix of a signal that came from a file or a topic, and is written to the WAL: so the stream has it, like
/// those of the table.
pub(crate) const SIGNAL_PREFIX: &str = "outboxd.signal";

/// The signals of a session.
#[derive(Debug)]
pub(in crate::relay) struct Signals {
    options: SignalOptions,
    pub(in crate::relay) incremental: Incremental,
    blocking: Blocking,
    /// Order in which a snapshot reads tables.
    order: NamePatterns,
    /// The place and the transaction of the signal for which the stream waits.
    waits_at: (Lsn, Option<Xid>),
    /// The signalling table, once the stream has described it.
    relation: Option<Oid>,
    /// Table of the last chunk's rows.
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
pub(in crate::relay) struct ReadTable {
    pub(in crate::relay) oid: Oid,
    /// Table for the columns in the order in which they were read.
    pub(in crate::relay) bound: Arc<ChangeTable>,
}

/// Task in the database.
#[derive(Debug)]
pub(in crate::relay) enum Task {
    Chunk(Ask),
    Scan(ScanAsk),
}

/// Result of a task, and its table.
#[derive(Debug)]
pub(in crate::relay) enum Done {
    Chunk { answer: Answer, table: Option<ReadTable> },
    Scan { scanned: Scanned, table: Option<ReadTable> },
}

/// Rows that were read and must be sent.
#[derive(Debug)]
pub(in crate::relay) struct Outgoing {
    /// Position of the stream when they were released.
    lsn: Lsn,
    /// Transaction that they are sent as a part of.
    xid: Option<Xid>,
    rows: VecDeque<NextRow>,
}

#[derive(Debug)]
struct NextRow {
    table: ReadTable,
    values: Values,
    snapshot: Snapshot,
    /// Position in its chunk, if it is needed.
    place: Option<ChunkKey>,
}

/// The next of them.
#[derive(Debug)]
pub(in crate::relay) struct OutgoingRow {
    pub(in crate::relay) table: ReadTable,
    pub(in crate::relay) lsn: Lsn,
    pub(in crate::relay) xid: Option<Xid>,
    pub(in crate::relay) values: Values,
    pub(in crate::relay) snapshot: Snapshot,
}

/// A change of the signalling table that may be a signal.
#[derive(Debug)]
pub(in crate::relay) enum SignalChange {
    /// A row was inserted.
    Row { id: String, kind: String, data: Option<String> },
    /// The row of a watermark was deleted.
    Deleted { id: String },
    /// A logical message: the id of a watermark.
    Message { id: String },
    /// A logical message: a signal.
    Document(String),
}

impl SignalChange {
    /// Returns whether it came in a logical message.
    pub(in crate::relay) const fn is_message(&self) -> bool {
        matches!(self, Self::Message { .. } | Self::Document(_))
    }
}

impl Signals {
    /// Continues from `kept`. Returns `None` when signals are disabled.
    pub(in crate::relay) fn new(
        options: &Options,
        tables: Vec<String>,
        order: &NamePatterns,
        kept: StoredCheckpoint,
    ) -> Option<Self> {
        if !options.signals.is_on() {
            return None;
        }
        let (rows, tells) = (options.signals.chunk_rows, options.notifications.is_on());
        let mut incremental = Incremental::new(rows, tells, new_id, kept);
        if let Some(table) = options.signals.table.as_ref().filter(|table| !tables.contains(table)) {
            tracing::warn!(
                table,
                "signal.data.collection: the table does not exist: CREATE TABLE … (id varchar(64) PRIMARY \
                 KEY, type varchar(32) NOT NULL, data varchar(2048))"
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

    /// Records that the stream has described a captured table.
    pub(in crate::relay) fn describe(&mut self, relation: Oid, name: &str) {
        if self.options.table.as_deref() != Some(name) {
            self.incremental.know(name.to_owned());
        } else if self.options.from_table {
            self.relation = Some(relation);
        }
    }

    /// Returns the signal of a row that was inserted into the signal table.
    pub(in crate::relay) fn inserted(&self, relation: Oid, row: &Tuple<'_>) -> Option<SignalChange> {
        if self.relation != Some(relation) {
            return None;
        }
        let text = |index: usize| text_of(row.columns().get(index)?);
        Some(SignalChange::Row { id: text(0)?, kind: text(1)?, data: text(2) })
    }

    /// Returns the watermark of a row that was deleted from the signal table.
    pub(in crate::relay) fn deleted(&self, relation: Oid, row: &Tuple<'_>) -> Option<SignalChange> {
        if self.relation != Some(relation) || self.options.watermarks != Watermarks::InsertDelete {
            return None;
        }
        Some(SignalChange::Deleted { id: text_of(row.columns().first()?)? })
    }

    /// Returns whether the stream must wait before this.
    pub(in crate::relay) fn awaits_rows(&self, said: &SignalChange) -> bool {
        match said {
            SignalChange::Row { id, kind, .. } => {
                kind == "snapshot-window-open" && self.incremental.awaits_rows_at(id)
            }
            SignalChange::Message { id } => id.ends_with("-open") && self.incremental.awaits_rows_at(id),
            SignalChange::Deleted { .. } | SignalChange::Document(_) => false,
        }
    }

    /// Returns the signal or watermark of a logical message.
    pub(in crate::relay) fn message(&self, prefix: &str, content: &[u8]) -> Option<SignalChange> {
        // A document that is not UTF-8 is no signal either, which is reported where signals are parsed.
        let text = || String::from_utf8_lossy(content).into_owned();
        match prefix {
            MESSAGE_PREFIX => Some(SignalChange::Message { id: text() }),
            SIGNAL_PREFIX => Some(SignalChange::Document(text())),
            _ => None,
        }
    }

    /// Applies a signal or watermark of this transaction, read at `lsn`.
    pub(in crate::relay) fn apply(&mut self, said: SignalChange, lsn: Lsn, open: Option<Begin>) {
        if open.is_some_and(|open| self.incremental.has_heeded(open.final_lsn)) {
            return;
        }
        let signal = match said {
            SignalChange::Row { id, kind, data } => Signal::parse(&id, &kind, data.as_deref()),
            SignalChange::Document(document) => Signal::parse_document(&document),
            SignalChange::Deleted { id } => return self.close(&id, lsn),
            SignalChange::Message { id } if id.ends_with("-close") => return self.close(&id, lsn),
            SignalChange::Message { .. } => return,
        };
        let signal = match signal {
            Ok(signal) => signal,
            Err(error) => {
                tracing::warn!(%lsn, %error, "a signal is skipped");
                return;
            }
        };
        report(&signal);
        match &signal.action {
            Action::CloseWindow => self.close(&signal.id, lsn),
            Action::ExecuteSnapshot(request) if request.kind == SnapshotKind::Blocking => {
                self.blocking.execute(request, self.incremental.known(), &self.order);
                self.waits_at = (lsn, open.map(|open| open.xid));
            }
            _ => self.incremental.apply(&signal),
        }
    }

    /// Returns the next task in the database.
    pub(in crate::relay) fn next_task(&mut self) -> Option<Task> {
        // One chunk at a time is held, and one is sent.
        if self.outgoing.is_some() || self.is_at_it {
            return None;
        }
        let scan = self.blocking.next_ask().map(Task::Scan);
        let task = scan.or_else(|| self.incremental.next_ask().map(Task::Chunk));
        self.is_at_it = task.is_some();
        task
    }

    /// Returns whether the stream must wait until rows are read and sent.
    pub(in crate::relay) fn blocks_stream(&self) -> bool {
        self.blocking.is_running()
    }

    /// Handles the result of a task.
    pub(in crate::relay) fn take(&mut self, done: Done) {
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

    /// Removes and returns the row to send next.
    pub(in crate::relay) fn next_row(&mut self) -> Option<OutgoingRow> {
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

    /// Puts a row back that is not sent yet.
    pub(in crate::relay) fn put_back(&mut self, row: OutgoingRow) {
        if let Some(outgoing) = &mut self.outgoing {
            let OutgoingRow { table, values, snapshot, .. } = row;
            let place = self.incremental.take_row_back();
            outgoing.rows.push_front(NextRow { table, values, snapshot, place });
        }
    }

    /// Records that a transaction of the stream has ended.
    pub(in crate::relay) fn commit(&mut self, xid: u32, end_lsn: Lsn) {
        self.recent.add(xid);
        self.incremental.commit(end_lsn);
    }

    /// Returns the next notification.
    pub(in crate::relay) fn next_notification(&mut self) -> Option<Notification> {
        self.incremental.next_notification().or_else(|| self.blocking.next_notification())
    }

    /// Closes the window of a standby, where the stream has brought everything before this.
    pub(in crate::relay) fn close_at(&mut self, reached: Lsn) {
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
                "rows of an incremental snapshot are not sent: their table is unknown"
            );
        }
        let rows = |table: ReadTable| sendable.rows.into_iter().map(|row| incremental(row, &table)).collect();
        self.outgoing = table.map(|table| Outgoing { lsn, xid: None, rows: rows(table) });
    }
}

fn incremental(row: ReadRow, table: &ReadTable) -> NextRow {
    NextRow { table: table.clone(), values: row.values, snapshot: Snapshot::Incremental, place: row.place }
}

/// Marks a row that belongs to the table before, or to the one that is read.
fn marked(row: ScannedRow, [before, current]: &[Option<ReadTable>; 2]) -> Option<NextRow> {
    let Some(table) = if row.is_of_table_before { before } else { current }.clone() else {
        tracing::error!("a row of a blocking snapshot is not sent: its table is unknown");
        return None;
    };
    let of_row = Edge { first: row.first, last: row.last };
    let of_table = Edge { first: row.first_table, last: row.last_table };
    let snapshot = Snapshot::of(of_row, of_table);
    Some(NextRow { table, values: row.values, snapshot, place: None })
}

/// Logs a signal, without its data: a filter may contain values.
fn report(signal: &Signal) {
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
            tracing::info!(
                id,
                "signal: schema-changes: nothing to do, the tables' descriptions are read from the catalog"
            );
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
