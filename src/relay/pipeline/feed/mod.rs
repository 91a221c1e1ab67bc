//! The way from pgoutput messages to records in flight.

mod earlier;
mod in_hand;
mod labels;
mod messages;
mod notification;
mod outgoing;
mod parcel;
mod place;
mod progress;
mod signal;
mod tables;
mod window;

use std::sync::Arc;
use std::time::Instant;

use earlier::SentEarlier;
use in_hand::Answers;
use outgoing::Outgoing;
use place::StreamPlace;
use smallvec::{SmallVec, smallvec};
use tables::Tables;

use super::notifier::Notifier;
use super::signals::Signals;
use crate::change::{ChangeEvents, ReplicationOrigin, RowChange, Tally};
use crate::connect::converter::registered::SchemaIds;
use crate::connect::record::ProducerRecord;
use crate::kafka::{Inlet, Transport};
use crate::outbox::{Encoder, MessageOutbox};
use crate::pgoutput::{Begin, Commit, Message, Relation};
use crate::relay::capture::table::Table;
use crate::relay::delivery::dead_letters::DeadLetters;
use crate::relay::delivery::dispatch::{Dispatch, Unsent, UnsentRecords};
use crate::relay::delivery::flight::Flight;
use crate::relay::delivery::needs::{Answer, Need};
use crate::relay::delivery::notification_posts::NotificationPosts;
use crate::relay::delivery::tolerance::Tolerance;
use crate::relay::error::Error;
use crate::relay::options::{Guarantee, Options, SkippedOperations};
use crate::relay::parts::RelayParts;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::time::clock::Now;
use crate::source_offset::SourceOffset;
use crate::telemetry::{Change, Metrics};
use crate::transaction::{EventPosition, Identity};
use crate::wal::{Lsn, Oid};

/// Rows and messages in, records out. One per session; it does no I/O but hand records to the producer, which never
/// blocks.
pub(in crate::relay) struct Feed<'p, T = Inlet> {
    messages: Option<&'p MessageOutbox>,
    /// True if records of changes must be recognised again, which makes them carry their digests.
    recognises: bool,
    skipped: SkippedOperations,
    /// True if the source has much more.
    pub(in crate::relay) behind: bool,
    /// True if the server sent the last transaction long after its commit.
    pub(in crate::relay) late: bool,
    encoder: Encoder,
    /// Place of the stream.
    pub(in crate::relay) place: StreamPlace,
    /// Events that were sent before this session.
    earlier: SentEarlier,
    /// The relations that the stream has described.
    tables: Tables,
    /// Answers about the current message.
    answers: Answers,
    /// Converter of change events, if rows become change events.
    pub(in crate::relay) changes: Option<&'p ChangeEvents>,
    /// Converter of transaction metadata, if it is enabled.
    pub(in crate::relay) transactions: Option<&'p ChangeEvents>,
    /// Sender of notifications of snapshots.
    pub(in crate::relay) notifier: Option<Notifier<'p>>,
    /// Signals, if any are enabled.
    pub(in crate::relay) signals: Option<Signals>,
    /// Conversion from an event to its records.
    pub(in crate::relay) records_of: RecordsOf,
    /// Path of records to Kafka.
    pub(in crate::relay) out: Outgoing<'p, T>,
}

/// The records that an event becomes, in their order: one, or several such as a delete and its tombstone.
pub(in crate::relay) type RecordsOf = for<'r> fn(ProducerRecord<'r>) -> SmallVec<[ProducerRecord<'r>; 1]>;

/// Returns the event of an outbox as its one record.
fn one_record(record: ProducerRecord<'_>) -> SmallVec<[ProducerRecord<'_>; 1]> {
    smallvec![record]
}

/// Request of a message to the session.
#[derive(Debug)]
pub(in crate::relay) enum Outcome {
    /// Nothing.
    None,
    /// A query of the catalog for a relation that was described again.
    Describe(Relation),
    /// All before this position is complete.
    Committed(Lsn),
    /// It is handled. The rest of its records is for [`Feed::resume`], once their need is met.
    Unsent(Box<Unsent>),
    /// Need for making its record. Nothing has happened: the same message is given again then.
    Lacks(Need),
}

impl From<Option<Unsent>> for Outcome {
    fn from(unsent: Option<Unsent>) -> Self {
        unsent.map_or(Self::None, |unsent| Self::Unsent(Box::new(unsent)))
    }
}

impl Outcome {
    /// Returns whether the same message is given again.
    pub(in crate::relay) const fn is_lack(&self) -> bool {
        matches!(self, Self::Lacks(_))
    }
}

impl<'p> Feed<'p> {
    /// Creates a feed that starts at the slot's `confirmed_flush_lsn` and sends nothing that is
    /// `acknowledged`, nor what the stored offset describes as sent.
    pub(in crate::relay) fn new(
        parts: &'p RelayParts,
        metrics: &'p Metrics,
        confirmed: Lsn,
        acknowledged: Acknowledged,
        stored: Option<SourceOffset>,
    ) -> Self {
        let (dead_letters, messages) = (parts.dead_letters.as_ref(), parts.messages.as_ref());
        let inlet = parts.producer.inlet();
        let flight = Flight::new(inlet, parts.relay.window(), dead_letters.is_some(), metrics, confirmed);
        let feed =
            Self::with_flight(flight, metrics, messages, dead_letters, &parts.relay, acknowledged, stored);
        let notifier = Notifier::new(
            &parts.relay,
            &parts.route,
            parts.notification_posts.as_ref().map(NotificationPosts::mailbox),
        );
        let (changes, transactions) = (parts.route.changes(), parts.route.tells_transactions());
        Self { changes, transactions, notifier, ..feed }
    }
}

impl<'p, T: Transport> Feed<'p, T> {
    /// Does the same as [`Self::new`], into this flight.
    pub(in crate::relay) fn with_flight(
        flight: Flight<'p, T>,
        metrics: &'p Metrics,
        messages: Option<&'p MessageOutbox>,
        dead_letters: Option<&'p DeadLetters>,
        options: &Options,
        acknowledged: Acknowledged,
        stored: Option<SourceOffset>,
    ) -> Self {
        let out = Outgoing {
            metrics,
            tolerance: Tolerance::new(options),
            dead_letters,
            dispatch: Dispatch::new(dead_letters, metrics),
            flight,
        };
        Self {
            messages,
            recognises: dead_letters.is_some() || options.guarantee == Guarantee::TailDedupe,
            skipped: options.skipped,
            behind: false,
            late: false,
            encoder: Encoder::default(),
            place: StreamPlace::new(),
            earlier: SentEarlier::new(acknowledged, stored),
            tables: Tables::default(),
            answers: Answers::default(),
            changes: None,
            transactions: None,
            notifier: None,
            signals: None,
            records_of: one_record,
            out,
        }
    }

    /// Handles one pgoutput message; `lsn` is that of its WAL record.
    ///
    /// # Errors
    /// When the message is impossible here, or a row cannot be routed or sent.
    pub(in crate::relay) fn take(
        &mut self,
        lsn: Lsn,
        message: Message<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let said = self.read_signal(&message);
        if self.awaits_rows(said.as_ref()) || self.awaits_rows_before(&message) {
            return Ok(Outcome::Lacks(Need::Rows));
        }
        // What is a signal is no event, whatever messages are.
        let outcome = match &said {
            Some(said) if said.is_message() => Outcome::None,
            _ => self.take_message(lsn, message, now)?,
        };
        if let (Some(said), Some(signals)) = (said, &mut self.signals)
            && !self.earlier.passing
            && !outcome.is_lack()
        {
            signals.apply(said, lsn, self.place.open);
        }
        Ok(outcome)
    }

    fn take_message(&mut self, lsn: Lsn, message: Message<'_>, now: Now) -> Result<Outcome, Error> {
        match message {
            Message::Insert { relation, new } => return self.insert(lsn, relation, &new, now),
            Message::Begin(begin) => {
                if self.place.open != Some(begin) {
                    self.begin(begin)?;
                }
                return self.report_begin(&begin, lsn, now);
            }
            Message::Commit(commit) => return self.end(commit, lsn, now),
            Message::Relation(relation) => {
                if self.changes.is_some() {
                    self.tables.labels.describe(&relation);
                }
                return Ok(Outcome::Describe(relation));
            }
            Message::Update { relation, old, new } if self.sends_changes(relation) => {
                return self.changed(
                    lsn,
                    &[relation],
                    RowChange::Update(old.as_deref().map(Into::into), new.columns()),
                    now,
                );
            }
            Message::Update { relation, .. } => self.update(lsn, relation)?,
            Message::Delete { relation, old } if self.sends_changes(relation) => {
                return self.changed(lsn, &[relation], RowChange::Delete((&old).into()), now);
            }
            Message::Delete { relation, .. } => self.pass(relation, Change::Delete, "delete")?,
            Message::Truncate { relations, .. } => return self.truncate(lsn, &relations, now),
            Message::LogicalMessage(message) => return self.logical_message(lsn, &message, now),
            Message::Origin { lsn, name } => {
                self.place.origin = Some(Arc::new(ReplicationOrigin { name: name.to_owned(), lsn }));
            }
            // It describes: no row is in it.
            Message::Type { .. } => {}
        }
        Ok(Outcome::None)
    }

    /// Sets the treatment of a relation's rows from here on.
    pub(in crate::relay) fn describe(&mut self, relation: Oid, table: Table) {
        if let (Some(signals), Table::Captured(bound)) = (&mut self.signals, &table) {
            signals.describe(relation, bound.name());
        }
        self.tables.described.describe(relation, table);
    }

    /// Stores the answer to a need.
    pub(in crate::relay) fn learn(&mut self, answer: Answer, now: Now) {
        match answer {
            Answer::Schema(schema) => self.encoder.learn(schema.0, schema.1),
            Answer::Topic { name, partitions } => self.out.flight.learn_topic(name, partitions, now),
            Answer::Tail(tail) => self.out.dispatch.repeats.learn(tail),
            Answer::Table { relation, table } => self.describe(relation, table),
            Answer::Values(values) => self.answers.values = Some(values),
            Answer::QueueEmpty | Answer::Rows => {}
        }
    }

    /// Returns the schema ids of the registry.
    pub(in crate::relay) const fn schemas(&mut self) -> &mut SchemaIds {
        self.encoder.schemas()
    }

    /// Returns the cause of a failure, if a record was refused: see [`Flight::take_refusal`].
    pub(in crate::relay) fn take_refusal(&mut self, now: Now) -> Option<Error> {
        let refusal = self.out.flight.take_refusal()?;
        Some(self.out.dispatch.judge(refusal, &self.out.flight, now.instant))
    }

    /// Marks topics with an old answer to be requested again, and forgets refused records that are confirmed.
    pub(in crate::relay) fn forget_old(&mut self, now: Instant) {
        self.out.flight.forget_old(now);
        let frontier = self.out.flight.frontier();
        self.out.dispatch.forget_before(frontier);
        if let Some(signals) = &mut self.signals {
            signals.incremental.forget_before(frontier, self.out.flight.settled().0);
        }
    }

    /// Returns whether a further record may be handed over.
    pub(in crate::relay) fn has_room(&mut self) -> bool {
        self.out.flight.has_room(self.behind)
    }

    /// Begins the stream.
    pub(in crate::relay) fn start(&mut self) {
        self.out.flight.hold(self.earlier.is_awaiting());
    }

    /// Records that all WAL before this was sent, as a keepalive reported.
    ///
    /// # Errors
    /// When something that was read before is missing now.
    pub(in crate::relay) fn mark(&mut self, wal_end: Lsn) -> Result<(), Error> {
        if !self.out.flight.in_transaction() {
            self.earlier.reach(wal_end)?;
            self.out.dispatch.pass(wal_end);
        }
        self.out.flight.mark(wal_end)
    }

    fn begin(&mut self, begin: Begin) -> Result<(), Error> {
        (self.place.origin, self.place.tally) = (None, Tally::default());
        self.earlier.begin(&begin);
        self.open(begin, Identity::from(&begin))
    }

    fn open(&mut self, begin: Begin, identity: Identity) -> Result<(), Error> {
        self.place.open(begin)?;
        self.earlier.open(begin, identity)?;
        self.out.dispatch.pass(begin.final_lsn);
        self.out.flight.begin(&begin, identity)?;
        self.out.flight.hold(self.earlier.is_awaiting());
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) -> Result<Lsn, Error> {
        let open = self.place.commit(commit)?;
        if let (Some(signals), Some(open)) = (&mut self.signals, open) {
            signals.commit(open.xid.0, commit.end_lsn);
        }
        self.out.flight.commit(commit.commit_lsn, commit.end_lsn)?;
        self.earlier.commit();
        Ok(commit.end_lsn)
    }

    /// Hands over records whose need is met. They may need something more.
    ///
    /// # Errors
    /// When they cannot be sent.
    pub(in crate::relay) fn resume(&mut self, records: UnsentRecords, now: Now) -> Result<Outcome, Error> {
        match self.out.dispatch.resume(&mut self.out.flight, records, now)? {
            None => self.end_with_event(),
            unsent => Ok(unsent.into()),
        }
    }

    /// Returns the reason for which inserts make no event at present.
    const fn skip_reason(&self, sent_before: bool) -> Option<&'static str> {
        match (self.earlier.passing || sent_before, self.skipped.create) {
            (true, _) => Some("acknowledged"),
            (false, true) => Some("skipped.operations"),
            (false, false) => None,
        }
    }
}

/// Counts and logs a value that cannot be represented.
fn report_replaced(
    metrics: &Metrics,
    table: &str,
    column: &str,
    EventPosition { commit_lsn, .. }: EventPosition,
) {
    metrics.event_error("value");
    tracing::warn!(table, column, %commit_lsn, "cannot convert a value to its type: sending its default \
                                                or NULL");
}
