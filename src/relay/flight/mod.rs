//! The records between the feed and the brokers, and what comes back of them.

mod transactions;

use std::time::{Duration, Instant};

use super::clock::Now;
use super::dead_letters::{DeadLetters, Fate, Mailbox, Origin, Refused};
use super::exactly_once::Batch;
use super::needs::Need;
use super::repeats::{Presence, Repeats};
use super::{Error, Options};
use crate::ack::{Ledger, Ticket, Window};
use crate::connect::record::ProducerRecord;
use crate::kafka::{self, Admission, Delivered, Fault, Inlet, Outlet, Rejection, Reports, Transport};
use crate::pgoutput::Begin;
use crate::telemetry::{Metrics, TopicTally, TransactionEnd};
use crate::transaction::{EventPosition, Identity};
use crate::wal::{Lsn, PgTimestamp, Xid};

/// The records that are on their way, and what their delivery reports allow to be confirmed.
pub(super) struct Flight<'p, T = Inlet> {
    outlet: Outlet<T>,
    dead_letters: Option<&'p DeadLetters>,
    pub(super) metrics: &'p Metrics,
    tally: TopicTally,
    ledger: Ledger,
    window: Window,
    /// The event that was handed over last.
    last_sent: Option<EventPosition>,
    /// A heartbeat is on its way.
    heartbeat_sent: bool,
    spare: Vec<Delivered>,
    refusal: Option<Rejection>,
    /// What was refused for its own sake, with dead letters.
    refused: Vec<Refused>,
    /// A record is on its way that must not have others in its batch.
    alone: bool,
    pub(super) repeats: Repeats,
    /// With exactly-once, the Kafka transaction.
    batch: Option<Batch>,
    /// A record waits until everything has come back.
    awaits_empty_queue: bool,
    /// Records that the broker has acknowledged.
    pub(super) events: u64,
    /// When a record was last handed over.
    pub(super) last_event: Option<Now>,
    /// Since when the oldest record on its way has been the oldest.
    pub(super) oldest_unacknowledged: Option<Instant>,
}

impl<'p, T: Transport> Flight<'p, T> {
    /// Nothing on its way yet; all before `confirmed` is.
    pub(super) fn new(
        transport: T,
        dead_letters: Option<&'p DeadLetters>,
        metrics: &'p Metrics,
        options: &Options,
        confirmed: Lsn,
    ) -> Self {
        Self {
            outlet: Outlet::new(transport),
            dead_letters,
            metrics,
            tally: metrics.topic_tally(),
            ledger: Ledger::new(confirmed),
            window: Window::new(options.inflight_records_max, options.inflight_bytes_max),
            last_sent: None,
            heartbeat_sent: false,
            spare: Vec::new(),
            refusal: None,
            refused: Vec::new(),
            alone: false,
            repeats: Repeats::default(),
            batch: None,
            awaits_empty_queue: false,
            events: 0,
            last_event: None,
            oldest_unacknowledged: None,
        }
    }

    /// A transaction begins.
    pub(super) fn begin(&mut self, begin: &Begin, identity: Identity) -> Result<(), Error> {
        self.repeats.pass(begin.final_lsn);
        self.begin_in_batch(begin.final_lsn, identity)?;
        Ok(self.ledger.begin(begin.final_lsn, begin.commit_time, begin.xid)?)
    }

    /// The open transaction is complete.
    pub(super) fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn) -> Result<(), Error> {
        if let Some(batch) = &mut self.batch {
            batch.closed(commit_lsn, end_lsn);
        }
        Ok(self.ledger.commit(commit_lsn, end_lsn)?)
    }

    /// A keepalive said that all WAL before this was sent.
    pub(super) fn mark(&mut self, wal_end: Lsn) -> Result<(), Error> {
        if !self.in_transaction() {
            self.repeats.pass(wal_end);
            self.reach_in_batch(wal_end)?;
        }
        self.ledger.mark(wal_end);
        Ok(())
    }

    /// Nothing may be confirmed while it is not certain that the server has the history that it had.
    pub(super) fn hold(&mut self, uncertain: bool) {
        self.ledger.hold(uncertain || self.batch.as_ref().is_some_and(Batch::is_awaiting));
    }

    /// A topic that [`Need::Topic`] asked for is there with so many partitions, or will not come.
    pub(super) fn settle(&mut self, topic: String, partitions: usize, now: Now) {
        self.outlet.learn_topic(topic, partitions, now.instant);
    }

    /// Asks for topics again whose answer is old, and knows no more of refused records that are done with.
    pub(super) fn forget_old(&mut self, now: Instant) {
        self.outlet.forget_old(now);
        if let Some(dead_letters) = self.dead_letters {
            dead_letters.forget_before(self.frontier());
        }
    }

    /// Hands over a record of the open transaction, in the way that is known to be the one for it.
    ///
    /// # Errors
    /// When the producer refuses it, or there is no room for what is to be known.
    pub(super) fn dispatch(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let Some(dead_letters) = self.dead_letters else { return self.send(record, position, now) };
        match dead_letters.fate(record, position, now.instant) {
            Fate::Send => self.send(record, position, now),
            Fate::Alone => self.send_alone(record, position, now),
            Fate::Dead(error_context) => {
                let origin = Origin { position, topic: Some(record.topic), partition: record.partition };
                dead_letters.send_letter(self, record, &error_context, origin, now)
            }
        }
    }

    /// As [`Self::send`], once everything in flight has come back; and nothing follows before this has.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(super) fn send_alone(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        if self.window.records() > 0 {
            return Ok(Some(self.await_empty_queue()));
        }
        let need = self.send(record, position, now)?;
        self.alone = self.window.records() > 0;
        Ok(need)
    }

    /// Hands a record of the open transaction to the producer, unless it needs its topic first.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(super) fn send(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        match self.repeats.look(record, position) {
            Presence::New => {}
            Presence::Unknown(question) => return Ok(Some(Need::Tail(question))),
            Presence::There => {
                self.metrics.skipped("tail", 1);
                return Ok(None);
            }
        }
        let partition = match self.admit(record) {
            Ok(partition) => partition,
            Err(need) => return Ok(Some(need)),
        };
        debug_assert!(
            self.last_sent < Some(position),
            "{position:?} is handed over after {:?}",
            self.last_sent
        );
        self.last_sent = Some(position);
        let ticket = self.ledger.issue()?;
        let mut text = self.repeats.text.take();
        let told = text.as_mut().map(|text| text.of(position));
        let handed_over = self.hand_over(ProducerRecord { partition, position: told, ..*record }, ticket);
        self.repeats.text = text;
        handed_over?;
        self.sent(record.topic, Some(position));
        self.tally.add(record.topic, 1);
        self.last_event = Some(now);
        self.oldest_unacknowledged.get_or_insert(now.instant);
        Ok(None)
    }

    /// Hands a heartbeat to the producer, unless the last one is still on its way, or it needs its topic first.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(super) fn send_heartbeat(&mut self, record: &ProducerRecord<'_>) -> Result<Option<Need>, Error> {
        if self.heartbeat_sent {
            return Ok(None);
        }
        match self.admit(record) {
            Ok(partition) => self.hand_over(ProducerRecord { partition, ..*record }, Ticket::NONE)?,
            Err(need) => return Ok(Some(need)),
        }
        self.sent(record.topic, None);
        self.heartbeat_sent = true;
        Ok(None)
    }

    /// The record's partition, if it is decided, or what it needs first.
    fn admit(&mut self, record: &ProducerRecord<'_>) -> Result<Option<i32>, Need> {
        if !self.is_open() {
            return Err(self.await_empty_queue());
        }
        match self.outlet.admit(record) {
            Admission::To(partition) => Ok(partition),
            Admission::AfterQueueEmpty => Err(self.await_empty_queue()),
            Admission::Unknown => Err(Need::Topic(record.topic.to_owned())),
        }
    }

    fn await_empty_queue(&mut self) -> Need {
        self.awaits_empty_queue = true;
        Need::QueueEmpty
    }

    fn hand_over(&mut self, record: ProducerRecord<'_>, ticket: Ticket) -> Result<(), Error> {
        if let Err(rejection) = self.outlet.send(&record, ticket) {
            let fatal = self.broken(rejection.reason.clone());
            self.refuse(vec![rejection.clone()]);
            self.refusal = Some(rejection);
            return Err(fatal);
        }
        self.window.enter(record.weight());
        Ok(())
    }

    /// Takes the delivery reports that have come back.
    ///
    /// # Errors
    /// When a record was refused, or the producer cannot go on.
    pub(super) fn collect(&mut self, now: Now) -> Result<Reports, Error> {
        let mut reports = self.absorb(now)?;
        let failure =
            self.refusal.as_ref().map(|refusal| refusal.reason.clone()).or_else(|| reports.fatal.take());
        match (self.fault(), failure) {
            (Some(fault), _) => Err(fault),
            (None, Some(reason)) => Err(self.broken(reason)),
            (None, None) => Ok(reports),
        }
    }

    /// As [`Self::collect`], with failures only counted: a failed record leaves the window and stays in the ledger,
    /// so that nothing behind it is ever confirmed.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(super) fn absorb(&mut self, now: Now) -> Result<Reports, Error> {
        let mut reports = self.outlet.take(std::mem::take(&mut self.spare));
        if self.batch.as_mut().is_some_and(|batch| batch.take(&mut reports)) {
            self.metrics.kafka_transaction(TransactionEnd::Committed);
        }
        let before = self.ledger.frontier();
        for delivered in &reports.delivered {
            self.acknowledge(*delivered, now)?;
        }
        self.spare = std::mem::take(&mut reports.delivered);
        self.window.leave(reports.failed_records, reports.failed_bytes);
        self.refuse(std::mem::take(&mut reports.refused));
        if self.refusal.as_ref().is_none_or(Rejection::is_consequence) {
            self.refusal = reports.rejection.take().or(self.refusal.take());
        }
        if self.window.records() == 0 {
            self.oldest_unacknowledged = None;
            (self.alone, self.awaits_empty_queue) = (false, false);
            self.outlet.queue_is_empty();
        } else if self.ledger.frontier() > before {
            // What is oldest now was not before: its age counts from here.
            self.oldest_unacknowledged = Some(now.instant);
        }
        Ok(reports)
    }

    /// The record that was refused, as an error: the cause of what [`Self::collect`] reported. It is known for certain once
    /// everything that was on its way has come back.
    pub(super) fn take_refusal(&mut self, now: Now) -> Option<Error> {
        let rejection = self.refusal.take()?;
        if self.is_passing(&rejection) {
            return None;
        }
        self.metrics.publish_error(&rejection.kind());
        if rejection.is_doubtful() || rejection.is_of_producer() || self.is_outdated(&rejection) {
            return Some(kafka::Error::Unwritten(Box::new(rejection)).into());
        }
        if rejection.ticket == Ticket::STATE {
            return Some(kafka::Error::unwritten_state(rejection).into());
        }
        if rejection.ticket == Ticket::NONE {
            return Some(Error::Heartbeat(Box::new(rejection)));
        }
        let commit_lsn = self.ledger.commit_lsn(rejection.ticket).unwrap_or_default();
        let source = Box::new(rejection);
        let known = self.dead_letters.is_some_and(|letters| letters.judge(&self.refused, now.instant));
        Some(match known {
            true => Error::Condemned { commit_lsn, source },
            false => Error::Refused { commit_lsn, source },
        })
    }

    /// Whether a record was refused for a partition that the topic had when it was last asked for: it has been made anew with fewer.
    /// The next session asks again, and chooses another partition unless the row names one.
    fn is_outdated(&self, rejection: &Rejection) -> bool {
        let had = |partition| self.outlet.had_partition(&rejection.topic, partition);
        rejection.fault() == Some(Fault::Partition) && rejection.partition.is_some_and(had)
    }

    fn refuse(&mut self, rejections: Vec<Rejection>) {
        if self.dead_letters.is_none() {
            return;
        }
        let room = kafka::REFUSED_MAX.saturating_sub(self.refused.len());
        let of_events = rejections
            .into_iter()
            .filter(|rejection| !rejection.ticket.is_of_no_transaction() && !rejection.is_consequence());
        for rejection in of_events.take(room) {
            let commit_lsn = self.ledger.commit_lsn(rejection.ticket).unwrap_or_default();
            self.refused.push(Refused { commit_lsn, rejection });
        }
    }

    /// Whether what failed is a record that was acknowledged and is perhaps not in the log: others on their way are not
    /// concerned.
    pub(super) fn is_doubtful(&self) -> bool {
        self.refusal.as_ref().is_some_and(Rejection::is_doubtful)
    }

    /// Everything before this may be confirmed.
    pub(super) const fn frontier(&self) -> Lsn {
        self.ledger.frontier()
    }

    /// Id and commit time of the last transaction before the frontier that had something to send.
    pub(super) const fn last_acknowledged(&self) -> Option<(Xid, PgTimestamp)> {
        self.ledger.last_acknowledged()
    }

    /// Whether a further record may be handed over; `behind` tells that the source has much more to give.
    pub(super) fn has_room(&mut self, behind: bool) -> bool {
        self.outlet.follow_load(self.window.records(), behind)
            && self.takes_rows()
            && !self.alone
            && self.window.has_room()
            && !self.ledger.is_full()
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

    fn acknowledge(&mut self, delivered: Delivered, now: Now) -> Result<(), Error> {
        let Delivered { ticket, records, bytes } = delivered;
        if ticket == Ticket::NONE {
            self.heartbeat_sent = false;
            self.window.leave(records, bytes);
            return Ok(());
        }
        if let Some(committed) = self.ledger.commit_time(ticket) {
            let latency = u64::try_from(now.unix_us.saturating_sub(committed.unix_us())).unwrap_or_default();
            self.metrics.commit_to_ack(Duration::from_micros(latency));
        }
        let records_acknowledged = u64::try_from(records).unwrap_or(u64::MAX);
        self.ledger.acknowledge(ticket, records_acknowledged)?;
        self.window.leave(records, bytes);
        self.events = self.events.saturating_add(records_acknowledged);
        Ok(())
    }
}

impl<T: Transport> Mailbox for Flight<'_, T> {
    fn send(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        Self::send(self, record, position, now)
    }

    fn send_alone(
        &mut self,
        record: &ProducerRecord<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        Self::send_alone(self, record, position, now)
    }

    fn metrics(&self) -> &Metrics {
        self.metrics
    }
}
