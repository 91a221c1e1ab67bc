use std::time::Instant;

use super::Flight;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;
use crate::kafka::{self, Rejection, Transport};
use crate::relay::Error;
use crate::relay::clock::Now;
use crate::relay::exactly_once::{Batch, Step, Urgency};
use crate::telemetry::TransactionEnd;
use crate::transaction::{Divergence, EventPosition, Identity};
use crate::wal::Lsn;

/// The flight's part in Kafka transactions. Without exactly-once there is no batch, and nothing of this happens.
impl<T: Transport> Flight<'_, T> {
    /// The same flight, in Kafka transactions.
    pub(in crate::relay) fn in_transactions(&mut self, batch: Option<Batch>) {
        self.batch = batch;
    }

    /// Whether an event is in Kafka since before this start.
    ///
    /// # Errors
    /// When another one at its place is: the source has another history.
    pub(in crate::relay) fn has(&self, event: EventPosition) -> Result<bool, Error> {
        let Some(batch) = &self.batch else { return Ok(false) };
        batch.has(event).map_err(|divergence| other_state(batch, divergence))
    }

    /// A transaction of the source begins.
    pub(super) fn begin_in_batch(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Error> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        let begun = batch.begin(commit_lsn, identity);
        begun.map_err(|divergence| other_state(batch, divergence))
    }

    /// Everything of the source before `wal_end` has come.
    pub(super) fn reach_in_batch(&self, wal_end: Lsn) -> Result<(), Error> {
        let Some(batch) = &self.batch else { return Ok(()) };
        batch.reach(wal_end).map_err(|divergence| other_state(batch, divergence))
    }

    /// Commits or aborts what is due.
    pub(in crate::relay) fn step(&mut self, now: Now, urgency: Urgency) -> Result<(), Error> {
        let in_transaction = self.ledger.in_transaction();
        let waits = self.awaits_empty_queue || self.alone;
        let urgency = if waits && urgency != Urgency::Over { Urgency::Now } else { urgency };
        while let Some(batch) = &mut self.batch {
            match batch.step(now.instant, urgency, in_transaction, &self.window) {
                Step::None => break,
                Step::Send { topic, key, value } => self.send_state(&topic, &key, &value, now)?,
                Step::Commit => self.outlet.commit(),
                Step::Abort => {
                    self.metrics.kafka_transaction(TransactionEnd::Aborted);
                    self.outlet.abort();
                }
            }
        }
        Ok(())
    }

    /// When the next commit is due although nothing happens.
    pub(in crate::relay) fn commit_due(&self) -> Option<Instant> {
        self.batch.as_ref()?.due(self.ledger.in_transaction())
    }

    /// Whether nothing is on its way, and nothing is being committed or aborted.
    pub(in crate::relay) fn is_settled(&self) -> bool {
        self.window.records() == 0 && !self.batch.as_ref().is_some_and(Batch::is_busy)
    }

    /// After a session has ended: takes what comes back, and aborts what is not committed. True once nothing is on its way.
    pub(in crate::relay) fn wind_up(&mut self, now: Now) -> Result<bool, Error> {
        self.absorb(now)?;
        self.step(now, Urgency::Over)?;
        Ok(self.is_settled())
    }

    /// Whether records may be handed over: not while a transaction is being committed.
    pub(in crate::relay) fn is_open(&self) -> bool {
        self.batch.as_ref().is_none_or(Batch::is_open)
    }

    /// Whether more rows belong into the transaction: not between two of the source when it is half full, so that the next one
    /// is not split.
    pub(in crate::relay) fn takes_rows(&self) -> bool {
        let ends = || !self.ledger.in_transaction() && self.window.is_half_full();
        self.batch.as_ref().is_none_or(|batch| batch.takes_rows() && !ends())
    }

    pub(in crate::relay) fn sent(&mut self, topic: &str, event: Option<EventPosition>) {
        if let Some(batch) = &mut self.batch {
            batch.sent(topic, event);
        }
    }

    /// Why the last commit failed, or what the brokers have against the producer.
    pub(in crate::relay) fn fault(&mut self) -> Option<Error> {
        Some(self.batch.as_mut()?.take_fault()?.into())
    }

    /// The producer cannot go on. With transactions a new one can.
    pub(in crate::relay) fn broken(&mut self, reason: String) -> Error {
        match &mut self.batch {
            Some(batch) => batch.fail(reason).into(),
            None => kafka::Error::Fatal(reason).into(),
        }
    }

    /// Whether a record failed only because its transaction did.
    pub(in crate::relay) fn is_passing(&self, rejection: &Rejection) -> bool {
        self.batch.is_some() && !rejection.is_doubtful() && !rejection.is_lasting()
    }

    fn send_state(&mut self, topic: &str, key: &str, value: &str, now: Now) -> Result<(), Error> {
        let record = ProducerRecord {
            topic,
            partition: Some(0),
            timestamp_ms: now.unix_ms(),
            key: Some(key.as_bytes()),
            value: Some(value.as_bytes()),
            headers: &[],
            position: None,
        };
        let sent = self.outlet.send(&record, Ticket::STATE);
        sent.map_err(|rejection| kafka::Error::unwritten_state(rejection).into())
    }
}

fn other_state(batch: &Batch, divergence: Divergence) -> Error {
    let (topic, slot) = batch.state_place();
    Error::OtherState { topic, slot, source: divergence.into() }
}
