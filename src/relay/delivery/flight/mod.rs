//! The records between the feed and the brokers, and what comes back of them.
//!
//! ```text
//! record ─▶ outlet: admitted? ─▶ ledger: a ticket ─▶ window: counted in ─▶ outlet: sent
//! outlet: reports ─▶ transactions: held until committed ─▶ ledger, window, activity
//!                 └▶ refusals: what was refused, and what explains the rest
//! ```

mod activity;
mod refusals;
mod transactions;

use std::time::{Duration, Instant};

use super::dead_letters::{Company, Refused};
use super::exactly_once::{Batch, Place, Urgency};
use super::needs::Need;
use crate::ack::{Ledger, Ticket, Window};
use crate::connect::record::ProducerRecord;
use crate::kafka::{self, Admission, Delivered, Fault, Inlet, Outlet, Rejection, Reports, Transport};
use crate::pgoutput::Begin;
use crate::relay::error::Error;
use crate::relay::time::clock::Now;
use crate::signal::StoredCheckpoint;
use crate::telemetry::Metrics;
use crate::transaction::{EventPosition, Identity, Standing};
use crate::wal::{Lsn, PgTimestamp, Xid};
use activity::Activity;
use refusals::Refusals;
use transactions::Transactions;

/// The records that are on their way, and what their delivery reports allow to be confirmed.
pub(in crate::relay) struct Flight<'p, T = Inlet> {
    outlet: Outlet<T>,
    ledger: Ledger,
    window: Window,
    transactions: Transactions<'p>,
    refusals: Refusals,
    metrics: &'p Metrics,
    pub(in crate::relay) activity: Activity,
    /// The event that was handed over last.
    last_sent: Option<EventPosition>,
    /// Number of records in flight without a ticket: heartbeats, notifications.
    aside: usize,
    /// A record is on its way that must not have others in its batch.
    alone: bool,
    /// A record waits until everything has come back.
    awaits_empty_queue: bool,
    spare: Vec<Delivered>,
}

/// Facts that accompany a record when it is sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct RecordContext {
    pub(in crate::relay) standing: Standing,
    /// Further records of the same event follow.
    pub(in crate::relay) more: bool,
    pub(in crate::relay) company: Company,
}

impl<'p, T: Transport> Flight<'p, T> {
    /// Creates a flight without records, in which everything before `confirmed` is acknowledged.
    /// `remembers_refused` makes it record refused records for the dead-letter topic.
    pub(in crate::relay) fn new(
        transport: T,
        window: Window,
        remembers_refused: bool,
        metrics: &'p Metrics,
        confirmed: Lsn,
    ) -> Self {
        Self {
            outlet: Outlet::new(transport),
            ledger: Ledger::new(confirmed),
            window,
            transactions: Transactions::new(metrics),
            refusals: Refusals::new(remembers_refused),
            metrics,
            activity: Activity::default(),
            last_sent: None,
            aside: 0,
            alone: false,
            awaits_empty_queue: false,
            spare: Vec::new(),
        }
    }

    /// Sets the batch, so that records are sent in Kafka transactions.
    pub(in crate::relay) fn in_transactions(&mut self, batch: Option<Batch>) {
        self.transactions.batch = batch;
    }

    /// Begins a transaction.
    pub(in crate::relay) fn begin(&mut self, begin: &Begin, identity: Identity) -> Result<(), Error> {
        self.transactions.begin(begin.final_lsn, identity)?;
        Ok(self.ledger.begin(begin.final_lsn, begin.commit_time, begin.xid)?)
    }

    /// Completes the open transaction.
    pub(in crate::relay) fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn) -> Result<(), Error> {
        self.transactions.source_committed(commit_lsn, end_lsn);
        Ok(self.ledger.commit(commit_lsn, end_lsn)?)
    }

    /// Divides the open transaction: from here on its records are acknowledged for themselves. Returns the
    /// ticket of those before, unless all of them are acknowledged.
    pub(in crate::relay) fn divide(&mut self, begin: &Begin) -> Result<Option<Ticket>, Error> {
        let ticket = self.ledger.unacknowledged();
        self.ledger.commit(begin.final_lsn, begin.final_lsn)?;
        self.ledger.begin(begin.final_lsn, begin.commit_time, begin.xid)?;
        Ok(ticket)
    }

    /// Records that all WAL before this was sent, as a keepalive reported.
    pub(in crate::relay) fn mark(&mut self, wal_end: Lsn) -> Result<(), Error> {
        if !self.in_transaction() {
            self.transactions.reach(wal_end)?;
        }
        self.ledger.mark(wal_end);
        Ok(())
    }

    /// Confirms nothing while the server may turn out to have another history.
    pub(in crate::relay) fn hold(&mut self, uncertain: bool) {
        self.ledger.hold(uncertain || self.transactions.is_awaiting());
    }

    /// Counts an event, before [`Self::has`] is called for it.
    pub(in crate::relay) fn count_event(&mut self, event: EventPosition) {
        self.transactions.count_event(event);
    }

    /// Returns whether an event is in Kafka since before this start.
    ///
    /// # Errors
    /// When another event at its position is: the source has another history.
    pub(in crate::relay) fn has(&self, event: EventPosition) -> Result<bool, Error> {
        self.transactions.has(event)
    }

    /// Records the number of partitions of a topic that [`Need::Topic`] asked for, 0 when that is not known.
    pub(in crate::relay) fn learn_topic(&mut self, topic: String, partitions: usize, now: Now) {
        self.outlet.learn_topic(topic, partitions, now.instant);
    }

    /// Marks topics with an old answer to be requested again.
    pub(in crate::relay) fn forget_old(&mut self, now: Instant) {
        self.outlet.forget_old(now);
    }

    /// Hands a record of the open transaction to the producer, unless it needs something first. One that has no company goes once
    /// everything in flight has come back, and nothing follows before it has.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(in crate::relay) fn send(
        &mut self,
        record: &ProducerRecord<'_>,
        context: RecordContext,
        now: Now,
    ) -> Result<Option<Need>, Error> {
        let RecordContext { standing, more, company } = context;
        if self.alone || company == Company::Nothing && self.window.records() > 0 {
            return Ok(Some(self.await_empty_queue()));
        }
        let partition = match self.admit(record) {
            Ok(partition) => partition,
            Err(need) => return Ok(Some(need)),
        };
        if let Some(event) = standing.event() {
            debug_assert!(
                self.last_sent < Some(event),
                "{event:?} is handed over after {:?}",
                self.last_sent
            );
            self.last_sent = Some(event);
        }
        let ticket = self.ledger.issue()?;
        self.hand_over(ProducerRecord { partition, ..*record }, ticket)?;
        let place = standing.event().map(|event| Place::inside(event, more));
        self.transactions.sent(record.topic, place);
        self.alone = company == Company::Nothing;
        self.activity.sent(now);
        Ok(None)
    }

    /// Hands a heartbeat to the producer, unless the last one is still on its way, or it needs its topic first.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(in crate::relay) fn send_heartbeat(
        &mut self,
        record: &ProducerRecord<'_>,
    ) -> Result<Option<Need>, Error> {
        if self.aside > 0 {
            return Ok(None);
        }
        self.send_aside(record)
    }

    /// Hands a record to the producer that belongs to no transaction of the source, unless it needs something first.
    ///
    /// # Errors
    /// When the producer refuses it.
    pub(in crate::relay) fn send_aside(
        &mut self,
        record: &ProducerRecord<'_>,
    ) -> Result<Option<Need>, Error> {
        match self.admit(record) {
            Ok(partition) => self.hand_over(ProducerRecord { partition, ..*record }, Ticket::NONE)?,
            Err(need) => return Ok(Some(need)),
        }
        self.transactions.sent(record.topic, None);
        self.aside = self.aside.saturating_add(1);
        Ok(None)
    }

    /// Returns the record's partition, if it is decided, or what it needs first.
    fn admit(&mut self, record: &ProducerRecord<'_>) -> Result<Option<i32>, Need> {
        if !self.transactions.is_open() {
            return Err(self.await_empty_queue());
        }
        match self.outlet.admit(record) {
            Admission::To(partition) => Ok(partition),
            Admission::AfterQueueEmpty => Err(self.await_empty_queue()),
            Admission::Unknown => Err(Need::Topic(record.topic.to_owned())),
        }
    }

    const fn await_empty_queue(&mut self) -> Need {
        self.awaits_empty_queue = true;
        Need::QueueEmpty
    }

    fn hand_over(&mut self, record: ProducerRecord<'_>, ticket: Ticket) -> Result<(), Error> {
        if let Err(rejection) = self.outlet.send(&record, ticket) {
            let fatal = self.transactions.broken(rejection.reason.clone());
            self.refusals.of_producer(rejection, &self.ledger);
            return Err(fatal);
        }
        self.window.enter(record.weight());
        Ok(())
    }

    /// Collects the delivery reports.
    ///
    /// # Errors
    /// When a record was refused, or the producer cannot continue.
    pub(in crate::relay) fn collect(&mut self, now: Now) -> Result<Reports, Error> {
        let reports = self.absorb(now)?;
        let failure = self.refusals.reason();
        match (self.fault(), failure) {
            (Some(fault), _) => Err(fault),
            (None, Some(reason)) => Err(self.transactions.broken(reason)),
            (None, None) => Ok(reports),
        }
    }

    /// Collects as [`Self::collect`] does, with failures only counted: a failed record leaves the window and
    /// stays in the ledger, so that nothing behind it is ever confirmed.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(in crate::relay) fn absorb(&mut self, now: Now) -> Result<Reports, Error> {
        let mut reports = self.outlet.take(std::mem::take(&mut self.spare));
        self.transactions.take(&mut reports);
        let before = self.ledger.frontier();
        for delivered in &reports.delivered {
            self.acknowledge(*delivered, now)?;
        }
        self.spare = std::mem::take(&mut reports.delivered);
        self.window.leave(reports.failed_records, reports.failed_bytes);
        self.refusals.take(&mut reports, &self.ledger);
        if self.window.records() == 0 {
            self.activity.returned();
            (self.alone, self.awaits_empty_queue) = (false, false);
            self.outlet.queue_is_empty();
        } else if self.ledger.frontier() > before {
            self.activity.advanced(now);
        }
        Ok(reports)
    }

    fn acknowledge(&mut self, delivered: Delivered, now: Now) -> Result<(), Error> {
        let Delivered { ticket, records, bytes } = delivered;
        if ticket == Ticket::NONE {
            self.aside = self.aside.saturating_sub(records);
            self.window.leave(records, bytes);
            return Ok(());
        }
        if let Some(committed) = self.ledger.commit_time(ticket) {
            let latency = u64::try_from(now.unix_us.saturating_sub(committed.unix_us())).unwrap_or_default();
            self.metrics.commit_to_ack(Duration::from_micros(latency));
        }
        let acknowledged = u64::try_from(records).unwrap_or(u64::MAX);
        self.ledger.acknowledge(ticket, acknowledged)?;
        self.window.leave(records, bytes);
        self.activity.acknowledged(acknowledged, now);
        Ok(())
    }

    /// Hands over what was gathered; commits or aborts what is due.
    pub(in crate::relay) fn step(&mut self, now: Now, urgency: Urgency) -> Result<(), Error> {
        if let Err(rejection) = self.outlet.release() {
            // The next collection reports it: records in flight are waited for as after any other failure.
            self.refusals.of_producer(rejection, &self.ledger);
        }
        let waits = self.awaits_empty_queue || self.alone;
        let urgency = if waits && urgency != Urgency::Over { Urgency::Now } else { urgency };
        let in_transaction = self.ledger.in_transaction();
        self.transactions.step(now, urgency, in_transaction, &self.window, &mut self.outlet)
    }

    /// Returns whether records wait for others of their partition to be acknowledged.
    pub(in crate::relay) fn gathers(&self) -> bool {
        self.outlet.gathers()
    }

    /// Abandons the records that the producer has not been handed yet.
    pub(in crate::relay) fn abandon(&mut self) {
        self.outlet.abandon();
    }

    /// Returns whether a transaction may end with the progress of incremental snapshots.
    pub(in crate::relay) fn wants_snapshots(&self) -> bool {
        self.transactions.batch.as_ref().is_some_and(Batch::wants_snapshots)
    }

    /// Stores their progress up to what was handed over.
    pub(in crate::relay) fn report_snapshots(&mut self, kept: StoredCheckpoint) {
        if let Some(batch) = &mut self.transactions.batch {
            batch.report_snapshots(kept);
        }
    }

    /// Returns the time of the next commit if no further event arrives.
    pub(in crate::relay) fn commit_due(&self) -> Option<Instant> {
        self.transactions.due(self.ledger.in_transaction())
    }

    /// Returns whether nothing is on its way, and nothing is being committed or aborted.
    pub(in crate::relay) fn is_settled(&self) -> bool {
        self.window.records() == 0 && !self.transactions.is_busy()
    }

    /// Returns and clears the reason of the last failed commit, or the brokers' error for the producer.
    pub(in crate::relay) fn fault(&mut self) -> Option<Error> {
        self.transactions.take_fault()
    }

    /// Returns the refused record as an error: the cause of what [`Self::collect`] reported. It is final once
    /// nothing is in flight any more.
    pub(in crate::relay) fn take_refusal(&mut self) -> Option<Error> {
        let rejection = self.refusals.take_first()?;
        if self.transactions.is_passing(&rejection) {
            return None;
        }
        self.metrics.publish_error(&rejection.kind());
        if !rejection.is_lasting() || self.is_outdated(&rejection) {
            return Some(kafka::Error::Unwritten(Box::new(rejection)).into());
        }
        if rejection.ticket == Ticket::STATE {
            return Some(kafka::Error::unwritten_state(rejection).into());
        }
        if rejection.ticket == Ticket::NONE {
            return Some(Error::Heartbeat(Box::new(rejection)));
        }
        let commit_lsn = self.ledger.commit_lsn(rejection.ticket).unwrap_or_default();
        Some(Error::Refused { commit_lsn, source: Box::new(rejection) })
    }

    /// Returns whether a record was refused for a partition that the topic had when it was last queried: it
    /// was recreated with fewer. The next session queries it again, and chooses another partition unless the
    /// row names one.
    fn is_outdated(&self, rejection: &Rejection) -> bool {
        let had = |partition| self.outlet.had_partition(&rejection.topic, partition);
        rejection.fault() == Some(Fault::Partition) && rejection.partition.is_some_and(had)
    }

    /// Returns the records that were refused for their own sake, up to the number that is remembered.
    pub(in crate::relay) fn refused(&self) -> &[Refused] {
        self.refusals.refused()
    }

    /// Returns whether the producer has failed, so that what is in flight may never be reported.
    pub(in crate::relay) const fn has_failed(&self) -> bool {
        self.refusals.has_failed()
    }

    /// Returns whether the failed record was acknowledged and is perhaps not in the log: other records in
    /// flight are not concerned.
    pub(in crate::relay) fn is_doubtful(&self) -> bool {
        self.refusals.is_doubtful()
    }

    /// Returns the frontier: everything before it may be confirmed.
    pub(in crate::relay) const fn frontier(&self) -> Lsn {
        self.ledger.frontier()
    }

    /// Returns the ticket of the open transaction, if something of it is not acknowledged.
    pub(in crate::relay) fn unacknowledged(&self) -> Option<Ticket> {
        self.ledger.unacknowledged()
    }

    /// Returns the ticket before which everything is acknowledged.
    pub(in crate::relay) const fn settled(&self) -> Ticket {
        self.ledger.settled()
    }

    /// Returns id and commit time of the last transaction before the frontier that had records.
    pub(in crate::relay) const fn last_acknowledged(&self) -> Option<(Xid, PgTimestamp)> {
        self.ledger.last_acknowledged()
    }

    /// Returns whether a further record may be handed over. `behind` means that the source has much more.
    pub(in crate::relay) fn has_room(&mut self, behind: bool) -> bool {
        self.outlet.follow_load(self.window.records(), behind)
            && self.transactions.takes_rows(self.ledger.in_transaction(), &self.window)
            && !self.alone
            && self.window.has_room()
            && !self.ledger.is_full()
    }

    /// Returns the window of records in flight.
    pub(in crate::relay) const fn window(&self) -> &Window {
        &self.window
    }

    /// Returns whether a transaction is open.
    pub(in crate::relay) const fn in_transaction(&self) -> bool {
        self.ledger.in_transaction()
    }

    /// Returns the commit time of the oldest transaction that is not wholly acknowledged.
    pub(in crate::relay) fn oldest_commit(&self) -> Option<PgTimestamp> {
        self.ledger.oldest_unacknowledged()
    }
}
