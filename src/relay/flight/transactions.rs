use std::time::Instant;

use crate::ack::{Ticket, Window};
use crate::connect::record::ProducerRecord;
use crate::kafka::{self, Outlet, Rejection, Reports, Transport};
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::exactly_once::{Batch, Place, State, Step, Urgency};
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

    /// An event comes, before it is asked about.
    pub(super) const fn meet(&mut self, event: EventPosition) {
        if let Some(batch) = &mut self.batch {
            batch.meet(event);
        }
    }

    /// Whether an event is in Kafka since before this start.
    ///
    /// # Errors
    /// When another one at its place is: the source has another history.
    pub(super) fn has(&self, event: EventPosition) -> Result<bool, Error> {
        let Some(batch) = &self.batch else { return Ok(false) };
        batch.has(event).map_err(|divergence| other_state(batch, divergence))
    }

    /// Whether it is not certain yet that the source has the history that the state tells of.
    pub(super) fn is_awaiting(&self) -> bool {
        self.batch.as_ref().is_some_and(Batch::is_awaiting)
    }

    /// A transaction of the source begins.
    pub(super) fn begin(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let begun = batch.begin(commit_lsn, identity);
        begun.map_err(|divergence| other_state(batch, divergence))
    }

    /// A transaction of the source is complete.
    pub(super) fn source_committed(&mut self, commit_lsn: Lsn, end_lsn: Lsn) {
        if let Some(batch) = &mut self.batch {
            batch.closed(commit_lsn, end_lsn);
        }
    }

    /// Everything of the source before `wal_end` has come.
    pub(super) fn reach(&self, wal_end: Lsn) -> Result<(), Error> {
        let Some(batch) = &self.batch else { return Ok(()) };
        batch.reach(wal_end).map_err(|divergence| other_state(batch, divergence))
    }

    /// A record is handed over.
    pub(super) fn sent(&mut self, topic: &str, place: Option<Place>) {
        if let Some(batch) = &mut self.batch {
            batch.sent(topic, place);
        }
    }

    /// Takes what has come back, and leaves what is committed.
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

    /// When the next commit is due although nothing happens.
    pub(super) fn due(&self, in_transaction: bool) -> Option<Instant> {
        self.batch.as_ref()?.due(in_transaction)
    }

    /// Whether a commit or an abort is running.
    pub(super) fn is_busy(&self) -> bool {
        self.batch.as_ref().is_some_and(Batch::is_busy)
    }

    /// Whether records may be handed over: not while a transaction is being committed.
    pub(super) fn is_open(&self) -> bool {
        self.batch.as_ref().is_none_or(Batch::is_open)
    }

    /// Whether more rows belong into the transaction: not between two of the source when it is half full, so that the next one
    /// is not split.
    pub(super) fn takes_rows(&self, in_transaction: bool, window: &Window) -> bool {
        let ends = || !in_transaction && window.is_half_full();
        self.batch.as_ref().is_none_or(|batch| batch.takes_rows() && !ends())
    }

    /// Why the last commit failed, or what the brokers have against the producer.
    pub(super) fn take_fault(&mut self) -> Option<Error> {
        Some(self.batch.as_mut()?.take_fault()?.into())
    }

    /// The producer cannot go on. With transactions a new one can.
    pub(super) fn broken(&mut self, reason: String) -> Error {
        match &mut self.batch {
            Some(batch) => batch.fail(reason).into(),
            None => kafka::Error::Fatal(reason).into(),
        }
    }

    /// Whether a record failed only because its transaction did.
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
