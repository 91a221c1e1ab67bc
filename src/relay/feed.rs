use std::collections::HashMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::{Error, Options, SkippedOperations};
use crate::ack::{Ledger, Window};
use crate::error::chain;
use crate::kafka::{self, Delivered, Pace, Producer, Rejection, Reports};
use crate::outbox::{Encoder, InvalidOperation, OutboxTable, RouteContext};
use crate::pgoutput::{Begin, Commit, Message, Relation, Tuple, UnknownRelation};
use crate::telemetry::{Change, Metrics, TopicTally};
use crate::transaction::{Assembler, EventPosition};
use crate::wal::{Lsn, Oid, PgTimestamp};

/// What the rows of a relation are to us.
#[derive(Debug)]
pub(super) enum Table {
    /// An outbox: inserts become events.
    Outbox(Box<OutboxTable>),
    /// Not captured: its rows pass by.
    Other,
}

/// Rows in, records out; delivery reports in, confirmable positions out. One per session; it does no I/O but hand
/// records to the producer, which never blocks.
pub(super) struct Feed<'p> {
    producer: &'p Producer,
    metrics: &'p Metrics,
    tolerate_rows: bool,
    skipped: SkippedOperations,
    topics: TopicTally,
    assembler: Assembler,
    tables: HashMap<Oid, Table>,
    ledger: Ledger,
    window: Window,
    pace: Pace,
    /// Whether the source has much more to give.
    pub(super) behind: bool,
    encoder: Encoder,
    /// Transactions that committed before this are acknowledged already, by an earlier session of this process.
    acknowledged: Lsn,
    /// The open transaction is one of those.
    passing: bool,
    /// The event that was handed over last.
    last_sent: Option<EventPosition>,
    spare: Vec<Delivered>,
    refusal: Option<Rejection>,
    pub(super) events: u64,
    pub(super) last_event: Option<SystemTime>,
    pub(super) oldest_unacknowledged: Option<Instant>,
}

/// What a message asks of the session.
#[derive(Debug)]
pub(super) enum Wish {
    /// Nothing.
    None,
    /// The catalog's word on a relation that was described anew.
    Describe(Relation),
    /// A transaction is complete up to this position.
    Committed(Lsn),
}

impl<'p> Feed<'p> {
    /// A feed that starts at the slot's `confirmed_flush_lsn` and sends nothing that committed before `acknowledged`.
    pub(super) fn new(
        producer: &'p Producer,
        metrics: &'p Metrics,
        options: &Options,
        confirmed: Lsn,
        acknowledged: Lsn,
    ) -> Self {
        let window = Window::new(options.inflight_records_max, options.inflight_bytes_max);
        Self {
            producer,
            metrics,
            tolerate_rows: options.tolerate_rows,
            skipped: options.skipped,
            topics: metrics.topic_tally(),
            assembler: Assembler::default(),
            tables: HashMap::new(),
            ledger: Ledger::new(confirmed),
            window,
            pace: Pace::default(),
            behind: false,
            encoder: Encoder::default(),
            acknowledged,
            passing: false,
            last_sent: None,
            spare: Vec::new(),
            refusal: None,
            events: 0,
            last_event: None,
            oldest_unacknowledged: None,
        }
    }

    /// Takes one pgoutput message.
    ///
    /// # Errors
    /// When the message is impossible here, or a row cannot be routed or sent.
    pub(super) fn take(&mut self, message: Message<'_>) -> Result<Wish, Error> {
        match message {
            Message::Insert { relation, new } => self.insert(relation, &new)?,
            Message::Begin(begin) => self.begin(begin)?,
            Message::Commit(commit) => return self.commit(&commit).map(Wish::Committed),
            Message::Relation(relation) => return Ok(Wish::Describe(relation)),
            Message::Update { relation, .. } => self.update(relation)?,
            Message::Delete { relation, .. } => self.pass(relation, Change::Delete, "delete")?,
            Message::Truncate { .. } => self.metrics.changes(Change::Truncate, 1),
            Message::LogicalMessage(_) => self.metrics.changes(Change::Message, 1),
            Message::Origin { .. } | Message::Type { .. } => {}
        }
        Ok(Wish::None)
    }

    /// What the rows of a relation are from here on.
    pub(super) fn describe(&mut self, relation: Oid, table: Table) {
        self.tables.insert(relation, table);
    }

    /// A keepalive said that all WAL before this was sent.
    pub(super) fn mark(&mut self, wal_end: Lsn) {
        self.ledger.mark(wal_end);
    }

    /// Takes the delivery reports that have come back.
    ///
    /// # Errors
    /// When a record was refused, or the producer cannot go on.
    pub(super) fn collect(&mut self) -> Result<Reports, Error> {
        let mut reports = self.absorb()?;
        let failure =
            self.refusal.as_ref().map(|refusal| refusal.reason.clone()).or_else(|| reports.fatal.take());
        match failure {
            Some(reason) => Err(kafka::Error::Fatal(reason).into()),
            None => Ok(reports),
        }
    }

    /// As [`Self::collect`], with failures only counted: a failed record leaves the window and stays in the ledger,
    /// so that nothing behind it is ever confirmed.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(super) fn absorb(&mut self) -> Result<Reports, Error> {
        let mut reports = self.producer.deliveries().take(std::mem::take(&mut self.spare));
        let (now, before) = (unix_us(), self.ledger.frontier());
        for delivered in &reports.delivered {
            self.acknowledge(*delivered, now)?;
        }
        self.spare = std::mem::take(&mut reports.delivered);
        self.window.leave(reports.failed_records, reports.failed_bytes);
        if self.refusal.as_ref().is_none_or(Rejection::is_consequence) {
            self.refusal = reports.rejection.take().or(self.refusal.take());
        }
        if self.window.records() == 0 {
            self.oldest_unacknowledged = None;
        } else if self.ledger.frontier() > before {
            // What is oldest now was not before: its age counts from here.
            self.oldest_unacknowledged = Some(Instant::now());
        }
        Ok(reports)
    }

    /// The record that was refused, as an error: the cause of what [`Self::collect`] reported. It is known for certain once
    /// everything that was on its way has come back.
    pub(super) fn take_refusal(&mut self) -> Option<Error> {
        let rejection = self.refusal.take()?;
        self.metrics.publish_error(&rejection.code.to_string());
        let commit_lsn = self.ledger.commit_lsn(rejection.ticket).unwrap_or_default();
        Some(refused(commit_lsn, rejection))
    }

    /// Everything before this may be confirmed.
    pub(super) const fn frontier(&self) -> Lsn {
        self.ledger.frontier()
    }

    /// Whether a further record may be handed over.
    pub(super) fn has_room(&mut self) -> bool {
        if self.producer.follows_load() {
            self.pace = self.pace.next(self.window.records(), self.behind);
        }
        self.pace.allows_sending() && self.window.has_room() && !self.ledger.is_full()
    }

    /// What is in flight.
    pub(super) const fn window(&self) -> &Window {
        &self.window
    }

    /// Whether a transaction is open.
    pub(super) const fn in_transaction(&self) -> bool {
        self.ledger.in_transaction()
    }

    /// When the oldest transaction that is not wholly acknowledged committed.
    pub(super) fn oldest_commit(&self) -> Option<PgTimestamp> {
        self.ledger.oldest_unacknowledged()
    }

    fn begin(&mut self, begin: Begin) -> Result<(), Error> {
        self.assembler.begin(begin)?;
        self.ledger.begin(begin.final_lsn, begin.commit_time)?;
        self.passing = begin.final_lsn < self.acknowledged;
        Ok(())
    }

    fn commit(&mut self, commit: &Commit) -> Result<Lsn, Error> {
        self.assembler.commit(commit)?;
        self.ledger.commit(commit.commit_lsn, commit.end_lsn)?;
        Ok(commit.end_lsn)
    }

    fn insert(&mut self, relation: Oid, row: &Tuple<'_>) -> Result<(), Error> {
        let position = self.assembler.next_position()?;
        let Table::Outbox(table) = self.tables.get(&relation).ok_or(UnknownRelation(relation))? else {
            return Ok(());
        };
        self.metrics.changes(Change::Insert, 1);
        if let Some(reason) = self.skip_reason() {
            self.metrics.skipped(reason, 1);
            return Ok(());
        }
        let now = SystemTime::now();
        let context = RouteContext { now_ms: unix_ms(now) };
        let routed = match table.route(row, context, &mut self.encoder) {
            Ok(routed) => routed,
            Err(source) => {
                self.metrics.event_error("route");
                let table = table.name().to_owned();
                return tolerate(
                    self.tolerate_rows,
                    Error::Row { table, position, source: Box::new(source) },
                );
            }
        };
        let record = routed.as_record();
        debug_assert!(
            self.last_sent < Some(position),
            "{position:?} is handed over after {:?}",
            self.last_sent
        );
        self.last_sent = Some(position);
        let ticket = self.ledger.issue()?;
        if let Err(rejection) = self.producer.send(&record, ticket, self.pace) {
            let fatal = kafka::Error::Fatal(rejection.reason.clone());
            self.refusal = Some(rejection);
            return Err(fatal.into());
        }
        self.window.enter(record.weight());
        self.topics.add(record.topic, 1);
        self.last_event = Some(now);
        self.oldest_unacknowledged.get_or_insert_with(Instant::now);
        Ok(())
    }

    /// Why inserts make no event just now.
    const fn skip_reason(&self) -> Option<&'static str> {
        match (self.passing, self.skipped.create) {
            (true, _) => Some("acknowledged"),
            (false, true) => Some("skipped.operations"),
            (false, false) => None,
        }
    }

    fn update(&mut self, relation: Oid) -> Result<(), Error> {
        let EventPosition { commit_lsn, .. } = self.assembler.next_position()?;
        let Table::Outbox(table) = self.tables.get(&relation).ok_or(UnknownRelation(relation))? else {
            return Ok(());
        };
        self.metrics.changes(Change::Update, 1);
        self.metrics.skipped("update", 1);
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
        if let Table::Outbox(_) = self.tables.get(&relation).ok_or(UnknownRelation(relation))? {
            self.metrics.changes(change, 1);
            self.metrics.skipped(reason, 1);
        }
        Ok(())
    }

    fn acknowledge(&mut self, delivered: Delivered, now_us: i64) -> Result<(), Error> {
        let Delivered { ticket, records, bytes } = delivered;
        if let Some(committed) = self.ledger.commit_time(ticket) {
            let latency = u64::try_from(now_us.saturating_sub(committed.unix_us())).unwrap_or_default();
            self.metrics.commit_to_ack(std::time::Duration::from_micros(latency));
        }
        let records_acknowledged = u64::try_from(records).unwrap_or(u64::MAX);
        self.ledger.acknowledge(ticket, records_acknowledged)?;
        self.window.leave(records, bytes);
        self.events = self.events.saturating_add(records_acknowledged);
        Ok(())
    }
}

/// `errors.tolerance`: the row is told of and passed over, or it ends the relay.
fn tolerate(tolerated: bool, error: Error) -> Result<(), Error> {
    if !tolerated {
        return Err(error);
    }
    tracing::error!(error = chain(&error), "a row is passed over: errors.tolerance=all");
    Ok(())
}

fn refused(commit_lsn: Lsn, rejection: Rejection) -> Error {
    Error::Refused { commit_lsn, source: Box::new(rejection) }
}

fn unix_ms(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}

pub(super) fn unix_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_micros()).ok()).unwrap_or_default()
}
