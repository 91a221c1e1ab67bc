//! Changes of any captured table: to their records, or to the reason for which they are skipped.

use smallvec::SmallVec;

use crate::change::{
    ChangeContext, ChangeDigest, ChangeRecords, ChangeTable, Reselected, RowChange, SkippedHalves, Snapshot,
    Tally,
};
use crate::connect::converter::Destination;
use crate::kafka::Transport;
use crate::outbox::{InvalidOperation, RouteError};
use crate::pgoutput::UnknownRelation;
use crate::relay::capture::route::Bound;
use crate::relay::capture::table::Table;
use crate::relay::delivery::needs::Need;
use crate::relay::error::{Error, RowName};
use crate::relay::pipeline::feed::in_hand::StreamEvent;
use crate::relay::pipeline::feed::outgoing::Unmade;
use crate::relay::pipeline::feed::tables::Described;
use crate::relay::pipeline::feed::{Feed, Outcome, report_replaced};
use crate::relay::time::clock::Now;
use crate::telemetry::{Change, UNCHANGED};
use crate::transaction::EventPosition;
use crate::wal::{Lsn, Oid};

impl<T: Transport> Feed<'_, T> {
    /// Returns whether each change of a relation's rows becomes an event.
    pub(in crate::relay::pipeline::feed) fn sends_changes(&self, relation: Oid) -> bool {
        self.tables.described.changes(relation).is_some()
    }

    /// Handles an update or a delete of a table whose changes are sent.
    pub(in crate::relay::pipeline::feed) fn changed(
        &mut self,
        lsn: Lsn,
        relations: &[Oid],
        change: RowChange<'_, '_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let event = self.stream_event(lsn)?;
        let outcome = self.change(relations, change, event, now)?;
        self.end_event(lsn, &outcome);
        Ok(outcome)
    }

    /// Hands over the records of a change of a row; a truncate changes several tables.
    pub(super) fn change(
        &mut self,
        relations: &[Oid],
        change: RowChange<'_, '_>,
        event: StreamEvent,
        now: Now,
    ) -> Result<Outcome, Error> {
        let outcome = self.send_change(relations, change, event, now)?;
        if !outcome.is_lack() {
            self.out.metrics.changes(counted(&change), 1);
        }
        Ok(outcome)
    }

    fn send_change(
        &mut self,
        relations: &[Oid],
        change: RowChange<'_, '_>,
        StreamEvent { lsn, position, sent_before }: StreamEvent,
        now: Now,
    ) -> Result<Outcome, Error> {
        let tables = sent_tables(&self.tables.described, relations)?;
        let Some(&(relation, table)) = tables.first() else { return Ok(Outcome::None) };
        let in_kafka = self.out.flight.has(position.end_of_event())?;
        let skipped = self.skips(table, change).then_some("skipped.operations");
        // What Kafka has of a transaction that continues counts for the events behind it.
        if in_kafka && skipped.is_none() && self.transactions.is_some() {
            for (_, table) in &tables {
                self.place.tally.add(table.name(), table.count(change, self.skipped_halves()).unwrap_or(1));
            }
        }
        let acknowledged = (self.earlier.passing || sent_before).then_some("acknowledged");
        if let Some(reason) = in_kafka.then_some("committed").or(acknowledged).or(skipped) {
            self.tables.passed.skip(self.out.metrics, relation, table.name(), reason);
            return Ok(Outcome::None);
        }
        if let Some(described) = self.tables.labels.ask(relation, table, change) {
            return Ok(Outcome::Lacks(self.asks_for(described)));
        }
        let reselected = self.answers.values.as_ref();
        let is_read = self.place.snapshot != Snapshot::False || reselected.is_some();
        if let Some(lookup) = if is_read { None } else { table.lookup(change) } {
            return Ok(Outcome::Lacks(Need::Values {
                lookup: Box::new(lookup),
                within: self.place.within(),
            }));
        }
        let unread = unread(table, self.place.row_name(), position, reselected);
        let row = reselected.and_then(|reselected| reselected.patch(change));
        let sent = row.as_ref().map_or(change, |row| change.with_row(row));
        let context = self.change_context(lsn, table, now);
        let (scratch, schemas) = self.encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let unmade = match unread {
            Some(error) => Unmade::Error(error),
            None => match records(&tables, sent, &context, &self.place.tally, &mut into) {
                Ok((mut records, counts)) => {
                    if self.recognises {
                        let names = tables.iter().map(|(_, table)| table.name());
                        let transaction = self.place.streamed_transaction();
                        records.report_digest(ChangeDigest::of(names, change, transaction.as_ref()));
                    }
                    for (table, count) in counts {
                        self.place.tally.add(table, count);
                    }
                    let refused = records.take_refused();
                    let is_refused = !refused.is_empty();
                    for source in refused {
                        let (table, source) = (table.name().to_owned(), Box::new(source));
                        let name = Box::new(self.place.row_name());
                        self.out.skip(Error::Row { table, name, position, source })?;
                    }
                    if records.is_empty() {
                        if !is_refused {
                            report_update(table, change, position);
                            let reason = if records.is_unchanged() { UNCHANGED } else { "transforms" };
                            self.tables.passed.skip(self.out.metrics, relation, table.name(), reason);
                        }
                        return Ok(Outcome::None);
                    }
                    let scratch = self.encoder.scratch();
                    let outcome = records.lend(scratch, |records| self.out.send(records, position, now))?;
                    for column in table.replaced_columns(sent) {
                        report_replaced(self.out.metrics, table.name(), column, position);
                    }
                    return Ok(outcome);
                }
                Err(source) => Unmade::of_row(source, table.name(), || self.place.row_name(), position),
            },
        };
        let unmade = unmade.or_refused(&mut self.answers);
        let remains = || Some(table.raw_record(change, &mut self.encoder));
        self.out.give_up(unmade, remains, position, now)
    }

    /// Makes the context of a change of the open transaction.
    fn change_context(&self, lsn: Lsn, table: &ChangeTable, now: Now) -> ChangeContext {
        let tells = self.transactions.is_some() && self.place.snapshot == Snapshot::False;
        ChangeContext {
            before: tells.then(|| self.place.tally.before(table.name())),
            now_us: now.unix_us,
            commit_time: self.place.open.map_or_else(|| now.postgres(), |open| open.commit_time),
            xid: self.place.source_transaction().map(|open| open.xid),
            lsn,
            last_commit: self.place.last_commit,
            origin: self.place.origin.clone(),
            xmin: self.place.slot_xmin(),
            snapshot: self.place.snapshot,
            skipped: self.skipped_halves(),
            // A dead letter is a whole row.
            tolerates: self.out.tolerance.is_for_all() && self.out.dead_letters.is_none(),
        }
    }

    /// Returns the skipped halves of a change that is a delete and a create.
    const fn skipped_halves(&self) -> SkippedHalves {
        SkippedHalves { delete: self.skipped.delete, create: self.skipped.create }
    }

    /// Handles a TRUNCATE. Rows of an outbox that are removed were events before: nothing is sent for them.
    pub(in crate::relay::pipeline::feed) fn truncate(
        &mut self,
        lsn: Lsn,
        relations: &[Oid],
        now: Now,
    ) -> Result<Outcome, Error> {
        let mut sent = Vec::new();
        for relation in relations {
            if let Table::Captured(Bound::Changes(_)) = self.tables.described.get(*relation)? {
                sent.push(*relation);
            }
        }
        let outcome = match sent.as_slice() {
            [] => Outcome::None,
            sent => self.changed(lsn, sent, RowChange::Truncate, now)?,
        };
        if !outcome.is_lack() {
            self.count_truncated(relations);
        }
        Ok(outcome)
    }

    /// Counts the truncated tables for which nothing is sent.
    fn count_truncated(&mut self, relations: &[Oid]) {
        for relation in relations {
            match self.tables.described.get(*relation) {
                Ok(Table::Captured(Bound::Outbox(table))) => {
                    self.out.metrics.changes(Change::Truncate, 1);
                    self.tables.passed.count(self.out.metrics, *relation, table.name(), "truncate");
                }
                Ok(Table::NotCaptured(rows)) => rows.count(),
                Ok(Table::Captured(Bound::Changes(_))) | Err(_) => {}
            }
        }
    }

    /// Returns whether `skipped.operations` excludes all of a change. Rows of a snapshot are never excluded.
    fn skips(&self, table: &ChangeTable, change: RowChange<'_, '_>) -> bool {
        match change {
            RowChange::Insert(_) => self.skipped.create && self.place.snapshot == Snapshot::False,
            RowChange::Update(..) if table.changes_key(change) => self.skipped.create && self.skipped.delete,
            RowChange::Update(..) => self.skipped.update,
            RowChange::Delete(_) => self.skipped.delete,
            RowChange::Truncate => self.skipped.truncate,
        }
    }
}

/// Returns the tables of a change.
fn sent_tables<'t>(
    tables: &'t Described,
    relations: &[Oid],
) -> Result<SmallVec<[(Oid, &'t ChangeTable); 1]>, UnknownRelation> {
    let sent = relations.iter().map(|relation| {
        let table = tables.changes(*relation).ok_or(UnknownRelation(*relation))?;
        Ok((*relation, table))
    });
    sent.collect()
}

/// Returns the error of a row of which a required part could not be read again. If the part is not required, the row is sent as
/// received, with a warning.
fn unread(
    table: &ChangeTable,
    row: RowName,
    position: EventPosition,
    reselected: Option<&Reselected>,
) -> Option<Error> {
    let Some(Reselected::Failed(reason)) = reselected else { return None };
    let (name, reason) = (table.name().to_owned(), reason.clone());
    if !table.must_reselect() {
        tracing::warn!(table = name, reason, "cannot reselect columns of a row: it is sent as received");
        return None;
    }
    let source = Box::new(RouteError::Reselect { table: name.clone(), reason });
    Some(Error::Row { table: name, name: Box::new(row), position, source })
}

/// The events of each table.
type Counts<'a> = SmallVec<[(&'a str, i64); 1]>;

/// Makes the records of all tables, in their order.
fn records<'a>(
    tables: &[(Oid, &'a ChangeTable)],
    change: RowChange<'_, 'a>,
    at: &ChangeContext,
    tally: &Tally,
    into: &mut Destination<'_>,
) -> Result<(ChangeRecords<'a>, Counts<'a>), RouteError> {
    let (mut records, mut counts) = (ChangeRecords::default(), Counts::new());
    for (_, table) in tables {
        let at = ChangeContext { before: at.before.map(|_| tally.before(table.name())), ..at.clone() };
        table.add(change, &at, &mut records, into)?;
        counts.push((table.name(), records.events_of_table()));
    }
    Ok((records, counts))
}

/// Warns that an outbox row was updated, which an EventRouter among the transforms drops.
fn report_update(
    table: &ChangeTable,
    change: RowChange<'_, '_>,
    EventPosition { commit_lsn, .. }: EventPosition,
) {
    let RowChange::Update(..) = change else { return };
    let table_name = table.name();
    match table.on_update() {
        Some(InvalidOperation::Warn) => {
            tracing::warn!(table = table_name, %commit_lsn, "an outbox row was updated: not sent");
        }
        Some(InvalidOperation::Error) => {
            tracing::error!(table = table_name, %commit_lsn, "an outbox row was updated: not sent");
        }
        Some(InvalidOperation::Fatal) | None => {}
    }
}

const fn counted(change: &RowChange<'_, '_>) -> Change {
    match change {
        RowChange::Insert(_) => Change::Insert,
        RowChange::Update(..) => Change::Update,
        RowChange::Delete(_) => Change::Delete,
        RowChange::Truncate => Change::Truncate,
    }
}
