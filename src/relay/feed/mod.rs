//! From pgoutput messages to records in flight.

mod logical_message;
mod refusal;

use std::collections::HashMap;
use std::time::Instant;

use smallvec::{SmallVec, smallvec};

use super::acknowledged::Acknowledged;
use super::capture::PassedRows;
use super::clock::Now;
use super::dead_letters::DeadLetters;
use super::dispatch::Dispatch;
use super::error::Error;
use super::flight::Flight;
use super::needs::{Answer, Need};
use super::options::{Options, SkippedOperations};
use super::parts::RelayParts;
use super::table::Table;
use super::tolerance::Tolerance;
use crate::connect::converter::ConvertError;
use crate::connect::converter::avro::SchemaIds;
use crate::connect::record::ProducerRecord;
use crate::kafka::{Inlet, Transport};
use crate::outbox::{Encoder, InvalidOperation, MessageOutbox, RouteContext, RouteError};
use crate::pgoutput::{Begin, Commit, Message, Relation, Tuple, UnknownRelation};
use crate::source_offset::{SentBefore, SourceOffset};
use crate::telemetry::{Change, Metrics};
use crate::transaction::{Assembler, EventPosition, Identity, SequenceError};
use crate::wal::{Lsn, Oid};

/// Rows and messages in, records out. One per session; it does no I/O but hand records to the producer, which never
/// blocks.
pub(super) struct Feed<'p, T = Inlet> {
    pub(super) metrics: &'p Metrics,
    messages: Option<&'p MessageOutbox>,
    tolerance: Tolerance,
    dead_letters: Option<&'p DeadLetters>,
    skipped: SkippedOperations,
    assembler: Assembler,
    tables: HashMap<Oid, Table>,
    passed: PassedRows,
    /// Whether the source has much more to give.
    pub(super) behind: bool,
    encoder: Encoder,
    /// What is acknowledged already, by an earlier session of this process.
    acknowledged: Acknowledged,
    /// The open transaction is one of those.
    passing: bool,
    /// The offset that is stored.
    stored: Option<SourceOffset>,
    /// What that offset says was sent, until the stream is past it.
    sent_before: Option<SentBefore>,
    /// The event whose message is taken again.
    again: Option<Again>,
    /// The open transaction is a message's own, and this is its end.
    lone: Option<Commit>,
    /// What an event becomes, once it is converted.
    pub(super) records_of: RecordsOf,
    /// What is known of records before they are sent.
    pub(super) dispatch: Dispatch<'p>,
    /// The records on their way.
    pub(super) flight: Flight<'p, T>,
}

/// The records that an event becomes, in their order: one, or several such as a delete and its tombstone.
pub(super) type RecordsOf = for<'r> fn(ProducerRecord<'r>) -> SmallVec<[ProducerRecord<'r>; 1]>;

/// An event of an outbox is one record.
fn one_record(record: ProducerRecord<'_>) -> SmallVec<[ProducerRecord<'_>; 1]> {
    smallvec![record]
}

/// What a message asks of the session.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Nothing.
    None,
    /// The catalog's word on a relation that was described anew.
    Describe(Relation),
    /// All before this position is complete.
    Committed(Lsn),
    /// What its record needs, which is kept; [`Feed::go_on`] hands it over then.
    Await(Need),
    /// What must be known to write its record; then take the same message again.
    TakeAgain(Need),
}

/// A message that is taken again, because a schema's id was not known.
#[derive(Debug)]
struct Again {
    position: EventPosition,
    /// The id is not to be had.
    refused: Option<Error>,
}

impl<'p> Feed<'p> {
    /// A feed that starts at the slot's `confirmed_flush_lsn` and sends nothing that is `acknowledged`, nor what the stored
    /// offset says was sent.
    pub(super) fn new(
        parts: &'p RelayParts,
        metrics: &'p Metrics,
        confirmed: Lsn,
        acknowledged: Acknowledged,
        stored: Option<SourceOffset>,
    ) -> Self {
        let (dead_letters, messages) = (parts.dead_letters.as_ref(), parts.messages.as_ref());
        let inlet = parts.producer.inlet();
        let flight = Flight::new(inlet, parts.relay.window(), dead_letters.is_some(), metrics, confirmed);
        Self::with_flight(flight, metrics, messages, dead_letters, &parts.relay, acknowledged, stored)
    }
}

impl<'p, T: Transport> Feed<'p, T> {
    /// As [`Self::new`], into this flight.
    pub(super) fn with_flight(
        flight: Flight<'p, T>,
        metrics: &'p Metrics,
        messages: Option<&'p MessageOutbox>,
        dead_letters: Option<&'p DeadLetters>,
        options: &Options,
        acknowledged: Acknowledged,
        stored: Option<SourceOffset>,
    ) -> Self {
        Self {
            metrics,
            messages,
            tolerance: Tolerance::new(options),
            dead_letters,
            skipped: options.skipped,
            assembler: Assembler::default(),
            tables: HashMap::new(),
            passed: PassedRows::default(),
            behind: false,
            encoder: Encoder::default(),
            acknowledged,
            passing: false,
            sent_before: stored.as_ref().and_then(SentBefore::new),
            stored,
            again: None,
            lone: None,
            records_of: one_record,
            dispatch: Dispatch::new(dead_letters, metrics),
            flight,
        }
    }

    /// Takes one pgoutput message; `lsn` is that of its WAL record.
    ///
    /// # Errors
    /// When the message is impossible here, or a row cannot be routed or sent.
    pub(super) fn take(&mut self, lsn: Lsn, message: Message<'_>, now: Now) -> Result<Outcome, Error> {
        match message {
            Message::Insert { relation, new } => return self.insert(lsn, relation, &new, now),
            Message::Begin(begin) => self.begin(begin)?,
            Message::Commit(commit) => return self.commit(&commit).map(Outcome::Committed),
            Message::Relation(relation) => return Ok(Outcome::Describe(relation)),
            Message::Update { relation, .. } => self.update(relation)?,
            Message::Delete { relation, .. } => self.pass(relation, Change::Delete, "delete")?,
            Message::Truncate { relations, .. } => self.truncate(&relations)?,
            Message::LogicalMessage(message) => return self.logical_message(lsn, &message, now),
            // They describe: no row is in them.
            Message::Origin { .. } | Message::Type { .. } => {}
        }
        Ok(Outcome::None)
    }

    /// What the rows of a relation are from here on.
    pub(super) fn describe(&mut self, relation: Oid, table: Table) {
        self.tables.insert(relation, table);
    }

    /// What [`Outcome::Await`] or [`Outcome::TakeAgain`] asked for.
    pub(super) fn learn(&mut self, answer: Answer, now: Now) {
        match answer {
            Answer::Schema(schema) => self.encoder.learn(schema.0, schema.1),
            Answer::Topic { name, partitions } => self.flight.learn_topic(name, partitions, now),
            Answer::Tail(tail) => self.dispatch.repeats.learn(tail),
            Answer::Table { relation, table } => self.describe(relation, table),
            Answer::QueueEmpty => {}
        }
    }

    /// The ids that were learnt.
    pub(super) const fn schemas(&mut self) -> &mut SchemaIds {
        self.encoder.schemas()
    }

    /// What is acknowledged by now.
    pub(super) fn acknowledged(&self) -> Acknowledged {
        let mut acknowledged = self.acknowledged.clone();
        // A session that broke before it was as far as the last one knows less than that.
        acknowledged.to = acknowledged.to.max(self.flight.frontier());
        acknowledged.history.forget_from(acknowledged.to);
        acknowledged
    }

    /// The offset of what is acknowledged, for Debezium to go on from; none while the stored one is as far.
    pub(super) fn offset(&self, now: Now) -> Option<SourceOffset> {
        let stored = self.stored.as_ref();
        let frontier = self.flight.frontier();
        if stored.is_some_and(|stored| frontier <= stored.furthest()) {
            return None;
        }
        let (tx_id, committed_at) = match self.flight.last_acknowledged() {
            Some((xid, commit_time)) => (Some(u64::from(xid.0)), Some(commit_time)),
            None => (stored.and_then(|stored| stored.tx_id), stored.and_then(|stored| stored.committed_at)),
        };
        let committed_at = committed_at.unwrap_or(now.postgres());
        Some(SourceOffset::up_to(frontier, tx_id, committed_at))
    }

    /// What was behind a failure, if a record was refused: see [`Flight::take_refusal`].
    pub(super) fn take_refusal(&mut self, now: Now) -> Option<Error> {
        let refusal = self.flight.take_refusal()?;
        Some(self.dispatch.judge(refusal, &self.flight, now.instant))
    }

    /// Asks for topics again whose answer is old, and knows no more of refused records that are done with.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.flight.forget_old(now);
        self.dispatch.forget_before(self.flight.frontier());
    }

    /// Whether a further record may be handed over.
    pub(super) fn has_room(&mut self) -> bool {
        self.flight.has_room(self.behind)
    }

    /// The stream begins.
    pub(super) fn start(&mut self) {
        self.flight.hold(self.acknowledged.history.is_awaiting());
    }

    /// A keepalive said that all WAL before this was sent.
    ///
    /// # Errors
    /// When something that was read before is not there any more.
    pub(super) fn mark(&mut self, wal_end: Lsn) -> Result<(), Error> {
        if !self.flight.in_transaction() {
            self.acknowledged.history.reach(wal_end)?;
            self.dispatch.pass(wal_end);
        }
        self.flight.mark(wal_end)
    }

    fn begin(&mut self, begin: Begin) -> Result<(), Error> {
        if let Some(sent_before) = &mut self.sent_before {
            sent_before.begin(&begin);
        }
        self.open(begin, Identity::from(&begin))
    }

    /// A transaction that was acknowledged is passed over only if it is the one that was.
    fn open(&mut self, begin: Begin, identity: Identity) -> Result<(), Error> {
        self.assembler.begin(begin)?;
        let Acknowledged { to, history } = &mut self.acknowledged;
        self.passing = begin.final_lsn < *to && history.meet_again(begin.final_lsn, identity)?;
        if begin.final_lsn >= *to {
            history.add(begin.final_lsn, identity)?;
        }
        self.dispatch.pass(begin.final_lsn);
        self.flight.begin(&begin, identity)?;
        self.flight.hold(self.acknowledged.history.is_awaiting());
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) -> Result<Lsn, Error> {
        self.assembler.commit(commit)?;
        self.flight.commit(commit.commit_lsn, commit.end_lsn)?;
        if let Some(sent_before) = &mut self.sent_before {
            sent_before.commit();
        }
        self.sent_before.take_if(|sent_before| sent_before.is_over());
        Ok(commit.end_lsn)
    }

    /// Takes an inserted row.
    ///
    /// # Errors
    /// When it cannot be routed or sent.
    pub(super) fn insert(
        &mut self,
        lsn: Lsn,
        relation: Oid,
        row: &Tuple<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let again = self.again.take();
        let is_new = again.is_none();
        let Again { position, refused } = again.map_or_else(|| self.next_event(), Ok)?;
        let sent_before = is_new && self.was_sent_before(lsn);
        let table = match self.tables.get(&relation).ok_or(UnknownRelation(relation))? {
            Table::Outbox(table) => table,
            Table::NotCaptured(rows) => {
                rows.count();
                return Ok(Outcome::None);
            }
        };
        if is_new {
            self.metrics.changes(Change::Insert, 1);
        }
        let in_kafka = self.flight.has(position.end_of_event())?.then_some("committed");
        if let Some(reason) = in_kafka.or(self.skip_reason(sent_before)) {
            self.metrics.skipped(reason, 1);
            self.passed.count(self.metrics, relation, table.name(), reason);
            return Ok(Outcome::None);
        }
        let context = RouteContext { now_ms: now.unix_ms() };
        let taken = match refused {
            Some(error) => Err(error),
            None => match table.route(row, context, &mut self.encoder) {
                Ok(routed) => {
                    let records = (self.records_of)(routed.as_record());
                    Ok(self.dispatch.send(&mut self.flight, &records, position, now)?)
                }
                Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    self.again = Some(Again { position, refused: None });
                    return Ok(Outcome::TakeAgain(Need::Schema(registration)));
                }
                Err(source) => {
                    let table = table.name().to_owned();
                    Err(Error::Row { table, position, source: Box::new(source) })
                }
            },
        };
        let need = match taken {
            Ok(need) => need,
            Err(error) => {
                let remains = self.dead_letters.map(|_| table.raw_record(row, &mut self.encoder));
                return self.give_up(error, remains, position, now);
            }
        };
        for column in table.replaced_columns(row) {
            self.metrics.event_error("value");
            let (table, commit_lsn) = (table.name(), position.commit_lsn);
            tracing::warn!(table, column, %commit_lsn, "a value cannot be written in its type: its default or NULL is sent");
        }
        Ok(need.map_or(Outcome::None, Outcome::Await))
    }

    /// Hands over what was kept until there was what it needs. It may need something more.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub(super) fn go_on(&mut self, now: Now) -> Result<Outcome, Error> {
        match self.dispatch.go_on(&mut self.flight, now)? {
            Some(need) => Ok(Outcome::Await(need)),
            None => self.end_lone(),
        }
    }

    fn next_event(&mut self) -> Result<Again, SequenceError> {
        Ok(Again { position: self.assembler.next_position()?, refused: None })
    }

    /// Whether Debezium has sent the event at this LSN.
    fn was_sent_before(&mut self, lsn: Lsn) -> bool {
        self.sent_before.as_mut().is_some_and(|sent_before| sent_before.take_row(lsn))
    }

    /// Why inserts make no event just now.
    const fn skip_reason(&self, sent_before: bool) -> Option<&'static str> {
        match (self.passing || sent_before, self.skipped.create) {
            (true, _) => Some("acknowledged"),
            (false, true) => Some("skipped.operations"),
            (false, false) => None,
        }
    }

    fn update(&mut self, relation: Oid) -> Result<(), Error> {
        let EventPosition { commit_lsn, .. } = self.assembler.next_position()?;
        let table = match self.tables.get(&relation).ok_or(UnknownRelation(relation))? {
            Table::Outbox(table) => table,
            Table::NotCaptured(rows) => {
                rows.count();
                return Ok(());
            }
        };
        self.metrics.changes(Change::Update, 1);
        self.metrics.skipped("update", 1);
        self.passed.count(self.metrics, relation, table.name(), "update");
        if self.skipped.update {
            return Ok(());
        }
        let name = table.name();
        match table.on_update() {
            InvalidOperation::Warn => {
                tracing::warn!(table = name, %commit_lsn, "an outbox row was updated: not sent");
            }
            InvalidOperation::Error => {
                tracing::error!(table = name, %commit_lsn, "an outbox row was updated: not sent");
            }
            InvalidOperation::Fatal => return Err(Error::Updated { table: name.to_owned(), commit_lsn }),
        }
        Ok(())
    }

    fn pass(&mut self, relation: Oid, change: Change, reason: &'static str) -> Result<(), Error> {
        self.assembler.current()?;
        match self.tables.get(&relation).ok_or(UnknownRelation(relation))? {
            Table::Outbox(table) => {
                self.metrics.changes(change, 1);
                self.metrics.skipped(reason, 1);
                self.passed.count(self.metrics, relation, table.name(), reason);
            }
            Table::NotCaptured(rows) => rows.count(),
        }
        Ok(())
    }

    /// Rows that are taken out of a table were events before: nothing is sent.
    fn truncate(&mut self, relations: &[Oid]) -> Result<(), Error> {
        self.metrics.changes(Change::Truncate, 1);
        for relation in relations {
            match self.tables.get(relation).ok_or(UnknownRelation(*relation))? {
                Table::Outbox(table) => self.passed.count(self.metrics, *relation, table.name(), "truncate"),
                Table::NotCaptured(rows) => rows.count(),
            }
        }
        Ok(())
    }
}
