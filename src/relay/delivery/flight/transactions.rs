//! The part of records in flight that concerns Kafka transactions; without exactly once it does nothing.

use std::time::Instant;

use crate::ack::{Ticket, Window};
use crate::connect::record::ProducerRecord;
use crate::kafka::{self, Outlet, Rejection, Reports, Transport};
use crate::relay::delivery::exactly_once::{Batch, Place, State, Step, Urgency};
use crate::relay::error::Error;
use crate::relay::time::clock::Now;
use crate::telemetry::{Metrics, TransactionEnd};
use crate::transaction::{Divergence, EventPosition, Identity};
use crate::wal::Lsn;

/// The flight's part in Kafka transactions. Without exactly-once there is no batch, and nothing of this happens.
pub(super) struct Transactions<'p> {
    pub(super) batch: Option<Batch>,
    metrics: &'p Metrics,
}

impl<'p> Transactions<'p> {
    pub(super) const fn new(metrics: &'p Metrics) -> Self {
        Self { batch: None, metrics }
    }

    /// Counts an event, before [`Self::has`] is called for it.
    pub(super) fn count_event(&mut self, event: EventPosition) {
        if let Some(batch) = &mut self.batch {
            batch.count_event(event);
        }
    }

    /// Returns whether an event is in Kafka since before this start.
    ///
    /// # Errors
    /// When another event at its position is: the source has another history.
    pub(super) fn has(&self, event: EventPosition) -> Result<bool, Error> {
        let Some(batch) = &self.batch else { return Ok(false) };
        batch.has(event).map_err(|divergence| other_state(batch, divergence))
    }

    /// Returns whether the source may still turn out not to have the history of the state.
    pub(super) fn is_awaiting(&self) -> bool {
        self.batch.as_ref().is_some_and(Batch::is_awaiting)
    }

    /// Begins a source transaction.
    pub(super) fn begin(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let begun = batch.begin(commit_lsn, identity);
        begun.map_err(|divergence| other_state(batch, divergence))
    }

    /// Completes a source transaction.
    pub(super) fn source_committed(&mut self, commit_lsn: Lsn, end_lsn: Lsn) {
        if let Some(batch) = &mut self.batch {
            batch.closed(commit_lsn, end_lsn);
        }
    }

    /// Records that everything of the source before `wal_end` has arrived.
    pub(super) fn reach(&self, wal_end: Lsn) -> Result<(), Error> {
        let Some(batch) = &self.batch else { return Ok(()) };
        batch.reach(wal_end).map_err(|divergence| other_state(batch, divergence))
    }

    /// Records that a record was handed over.
    pub(super) fn sent(&mut self, topic: &str, place: Option<Place>) {
        if let Some(batch) = &mut self.batch {
            batch.sent(topic, place);
        }
    }

    /// Collects delivery reports, and leaves in `reports` what is committed.
    pub(super) fn take(&mut self, reports: &mut Reports) {
        if self.batch.as_mut().is_some_and(|batch| batch.take(reports)) {
            self.metrics.kafka_transaction(TransactionEnd::Committed);
        }
    }

    /// Commits or aborts what is due.
    pub(super) fn step(
        &mut self,
        now: Now,
        urgency: Urgency,
        in_transaction: bool,
        window: &Window,
        outlet: &mut Outlet<impl Transport>,
    ) -> Result<(), Error> {
        while let Some(batch) = &mut self.batch {
            match batch.step(now.instant, urgency, in_transaction, window) {
                Step::None => break,
                Step::Send { topic, state } => send_state(outlet, topic, &state, now)?,
                Step::Commit => outlet.commit(),
                Step::Abort => {
                    self.metrics.kafka_transaction(TransactionEnd::Aborted);
                    outlet.abort();
                }
            }
        }
        Ok(())
    }

    /// Returns the time of the next commit if no further event arrives.
    pub(super) fn due(&self, in_transaction: bool) -> Option<Instant> {
        self.batch.as_ref()?.due(in_transaction)
    }

    /// Returns whether a commit or an abort is running.
    pub(super) fn is_busy(&self) -> bool {
        self.batch.as_ref().is_some_and(Batch::is_busy)
    }

    /// Returns whether records may be handed over: not while a transaction is being committed.
    pub(super) fn is_open(&self) -> bool {
        self.batch.as_ref().is_none_or(Batch::is_open)
    }

    /// Returns whether further rows belong into the transaction: not between two source transactions when it
    /// is half full, so that the next one is not split.
    pub(super) fn takes_rows(&self, in_transaction: bool, window: &Window) -> bool {
        let ends = || !in_transaction && window.is_half_full();
        self.batch.as_ref().is_none_or(|batch| batch.takes_rows() && !ends())
    }

    /// Returns and clears the reason of the last failed commit, or the brokers' error for the producer.
    pub(super) fn take_fault(&mut self) -> Option<Error> {
        Some(self.batch.as_mut()?.take_fault()?.into())
    }

    /// Makes the error of a producer that cannot continue. With transactions a new one can.
    pub(super) fn broken(&mut self, reason: String) -> Error {
        match &mut self.batch {
            Some(batch) => batch.fail(reason).into(),
            None => kafka::Error::Fatal(reason).into(),
        }
    }

    /// Returns whether a record failed only because its transaction did.
    pub(super) fn is_passing(&self, rejection: &Rejection) -> bool {
        self.batch.is_some() && !rejection.is_doubtful() && !rejection.is_lasting()
    }
}

fn send_state(
    outlet: &mut Outlet<impl Transport>,
    topic: String,
    state: &State,
    now: Now,
) -> Result<(), Error> {
    let slot = &state.source.slot;
    let value = state.to_json().map_err(|source| Error::NoState {
        topic: topic.clone(),
        slot: slot.clone(),
        source,
    })?;
    let record = ProducerRecord {
        topic: &topic,
        partition: Some(0),
        timestamp_ms: now.unix_ms(),
        key: Some(slot.as_bytes()),
        value: Some(value.as_bytes()),
        headers: &[],
        position: None,
    };
    let sent = outlet.send(&record, Ticket::STATE);
    sent.map_err(|rejection| kafka::Error::unwritten_state(rejection).into())
}

fn other_state(batch: &Batch, divergence: Divergence) -> Error {
    let (topic, slot) = batch.state_place();
    Error::OtherState { topic, slot, source: divergence.into() }
}
