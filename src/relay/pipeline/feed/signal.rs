//! Signals in the stream, and the rows that they have asked for.

use super::outgoing::Unmade;
use super::tables::Described;
use super::{Feed, Outcome};
use crate::change::{ChangeContext, ChangeDigest, ChangeRecords, RowChange, SkippedHalves};
use crate::connect::converter::Destination;
use crate::kafka::Transport;
use crate::pgoutput::{ColumnValue, Message, Tuple};
use crate::relay::error::{Error, RowName};
use crate::relay::pipeline::signals::{OutgoingRow, SignalChange, Signals};
use crate::relay::time::clock::Now;
use crate::signal::StoredCheckpoint;
use crate::wal::{Lsn, Oid};

impl<T: Transport> Feed<'_, T> {
    /// Returns the signal or watermark of a message, if it is one. A row that the message changes is removed
    /// from the rows that were read.
    pub(super) fn read_signal(&mut self, message: &Message<'_>) -> Option<SignalChange> {
        self.signals.as_ref()?;
        let halves = self.sent_halves(message);
        let signals = self.signals.as_mut()?;
        match message {
            Message::Insert { relation, new } => {
                forget(
                    signals,
                    &self.tables.described,
                    *relation,
                    halves.create.then_some(new.columns()),
                    None,
                );
                signals.inserted(*relation, new)
            }
            Message::Update { relation, old, new } => {
                let old = old.as_deref().map(|old| crate::change::OldRow::from(old).columns());
                let old = old.filter(|_| halves.delete);
                forget(
                    signals,
                    &self.tables.described,
                    *relation,
                    halves.create.then_some(new.columns()),
                    old,
                );
                None
            }
            Message::Delete { relation, old } => {
                let old = crate::change::OldRow::from(old).columns();
                forget(signals, &self.tables.described, *relation, None, Some(old).filter(|_| halves.delete));
                let row: Tuple<'_> = old.iter().copied().collect();
                signals.deleted(*relation, &row)
            }
            Message::Truncate { .. } if self.skipped.truncate => None,
            Message::Truncate { relations, .. } => {
                for table in relations.iter().filter_map(|relation| self.tables.described.changes(*relation))
                {
                    signals.incremental.truncated(table.name());
                }
                None
            }
            Message::LogicalMessage(message) => signals.message(message.prefix, message.content),
            _ => None,
        }
    }

    /// Returns the halves of a change that are sent. A row that was read is sent in place of a change that
    /// `skipped.operations` excludes, as in Debezium: otherwise no record would have the row.
    fn sent_halves(&self, message: &Message<'_>) -> SentHalves {
        let both = |is_sent| SentHalves { create: is_sent, delete: is_sent };
        let (relation, change) = match message {
            Message::Insert { .. } => return both(!self.skipped.create),
            Message::Delete { .. } => return both(!self.skipped.delete),
            Message::Update { relation, old, new } => {
                (*relation, RowChange::Update(old.as_deref().map(Into::into), new.columns()))
            }
            _ => return both(true),
        };
        let changes_key =
            self.tables.described.changes(relation).is_some_and(|table| table.changes_key(change));
        match changes_key {
            true => SentHalves { create: !self.skipped.create, delete: !self.skipped.delete },
            false => both(!self.skipped.update),
        }
    }

    /// Returns whether a message must wait for rows that are being read.
    pub(super) fn awaits_rows(&self, said: Option<&SignalChange>) -> bool {
        let signals = self.signals.as_ref();
        !self.earlier.passing && signals.zip(said).is_some_and(|(signals, said)| signals.awaits_rows(said))
    }

    /// Returns whether the rows that a message waits for are still being read.
    pub(in crate::relay) fn lacks_rows(&self) -> bool {
        self.signals.as_ref().is_some_and(|signals| signals.incremental.lacks_rows())
    }

    /// Returns the progress of incremental snapshots, for a session that begins here.
    pub(in crate::relay) fn snapshots_at(&mut self, frontier: Lsn) -> Option<StoredCheckpoint> {
        let settled = self.out.flight.settled().0;
        self.signals.as_mut().map(|signals| signals.incremental.at(frontier, settled))
    }

    /// Returns whether the stream must wait until rows are read and sent.
    pub(in crate::relay) fn is_blocked(&self) -> bool {
        self.signals.as_ref().is_some_and(Signals::blocks_stream)
    }

    /// Forgets the row that was read for a signal and handed over last.
    pub(in crate::relay) fn end_read_row(&mut self) {
        if let Some(signals) = &mut self.signals {
            signals.incremental.end_row();
        }
    }

    /// Stores the progress of incremental snapshots for a Kafka transaction that ends now.
    pub(in crate::relay) fn report_snapshots(&mut self) {
        let open = self.place.open.map(|begin| begin.final_lsn);
        if let Some(signals) = self.signals.as_ref().filter(|_| self.out.flight.wants_snapshots()) {
            self.out.flight.report_snapshots(signals.incremental.handed_over(open));
        }
    }

    /// Hands over a row that was read for a signal. `None` when there is none.
    ///
    /// # Errors
    /// When it cannot be written or sent.
    pub(in crate::relay) fn send_read_row(&mut self, now: Now) -> Result<Option<Outcome>, Error> {
        self.end_read_row();
        let Some(row) = self.signals.as_mut().and_then(Signals::next_row) else {
            self.end_beside()?;
            return Ok(None);
        };
        let OutgoingRow { table, lsn, xid, values, snapshot } = &row;
        let standing = self.place.assembler.beside()?;
        let context = ChangeContext {
            before: None,
            origin: None,
            xmin: None,
            now_us: now.unix_us,
            commit_time: now.postgres(),
            xid: *xid,
            lsn: *lsn,
            last_commit: self.place.last_commit,
            snapshot: *snapshot,
            skipped: SkippedHalves::default(),
            tolerates: false,
        };
        let values: Vec<ColumnValue<'_>> = values
            .iter()
            .map(|value| value.as_deref().map_or(ColumnValue::Null, ColumnValue::Text))
            .collect();
        let (scratch, schemas) = self.encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let mut records = ChangeRecords::default();
        let unmade = match table.bound.add(RowChange::Insert(&values), &context, &mut records, &mut into) {
            Ok(()) => {
                if self.recognises {
                    let table = std::iter::once(table.bound.name());
                    records.report_digest(ChangeDigest::of(table, RowChange::Insert(&values), None));
                }
                let scratch = self.encoder.scratch();
                return records.lend(scratch, |records| self.out.send(records, standing, now)).map(Some);
            }
            Err(source) => Unmade::of_row(source, table.bound.name(), RowName::default, standing.position())
                .or_refused(&mut self.answers),
        };
        if let (Unmade::Unregistered(_), Some(signals)) = (&unmade, &mut self.signals) {
            drop((records, values));
            signals.put_back(row);
        }
        self.out.give_up(unmade, || None, standing, now).map(Some)
    }
}

/// Rows of a change that have a record: the new one, and the old one of a changed key or a delete.
#[derive(Debug, Clone, Copy)]
struct SentHalves {
    create: bool,
    delete: bool,
}

/// Forgets a row that has changed: what was read of it before is outdated.
fn forget(
    signals: &mut Signals,
    tables: &Described,
    relation: Oid,
    new: Option<&[ColumnValue<'_>]>,
    old: Option<&[ColumnValue<'_>]>,
) {
    let Some(table) = tables.changes(relation) else { return };
    if !signals.incremental.is_reading(table.name()) {
        return;
    }
    for row in [new, old].into_iter().flatten() {
        match table.raw_key(row) {
            // Columns that are not in the replica identity are NULL, and NULL in a unique index identifies no row.
            Some(key) if !key.contains(&None) => signals.incremental.changed(table.name(), &key),
            _ => signals.incremental.changed_unknown(table.name()),
        }
    }
}
