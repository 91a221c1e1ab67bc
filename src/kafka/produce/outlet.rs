//! The relay's interface to Kafka: admits records, sends them, and returns their delivery reports.

use std::time::Instant;

use super::accumulator::{Abandoned, Accumulator};
use super::admission::{Admission, Topics};
use super::delivery::{Delivered, Reports};
use super::pace::Pace;
use super::producer::Inlet;
use super::rejection::Rejection;
use super::transport::Transport;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// Interface of the relay's core to Kafka: sends records, and returns delivery reports.
///
/// It also ensures the conditions that librdkafka depends on: that the brokers know a topic before its first record is
/// sent, that the first record of a partition is sent alone, and that the way of sending changes only while
/// nothing is in flight. So a record is admitted first, and sent then.
#[derive(Debug)]
pub(crate) struct Outlet<T = Inlet> {
    transport: T,
    topics: Topics,
    pace: Pace,
    accumulator: Accumulator,
    /// Records that will not be sent any more, until [`Self::take`] has reported them.
    abandoned: Abandoned,
}

impl<T: Transport> Outlet<T> {
    /// Creates it without any known topic.
    pub(crate) fn new(transport: T) -> Self {
        Self {
            transport,
            topics: Topics::default(),
            pace: Pace::default(),
            accumulator: Accumulator::default(),
            abandoned: Abandoned::default(),
        }
    }

    /// Chooses the way of sending, with this number of records in flight, when the source has (`behind`) or
    /// has not much more. Returns whether records may be sent at present.
    pub(crate) fn follow_load(&mut self, inflight: usize, behind: bool) -> bool {
        if self.transport.follows_load() {
            self.pace = self.pace.next(inflight, behind);
        }
        self.pace.allows_sending()
    }

    /// Returns the partition of a record that can be sent now, or its precondition.
    pub(crate) fn admit(&mut self, record: &ProducerRecord<'_>) -> Admission {
        self.topics.admit(record, self.pace)
    }

    /// Stores the answer for a topic: its number of partitions, 0 when that is not known.
    pub(crate) fn learn_topic(&mut self, topic: String, partitions: usize, asked: Instant) {
        // What follows a lost record is aborted with it: the first of a partition need not be sent alone.
        let watched = if self.transport.is_transactional() { 0 } else { partitions };
        self.topics.insert(topic, partitions, watched, asked);
    }

    /// Returns whether the topic had this partition when it was queried.
    pub(crate) fn had_partition(&self, topic: &str, partition: i32) -> bool {
        self.topics.had(topic, partition)
    }

    /// Records that nothing is in flight any more.
    pub(crate) fn queue_is_empty(&mut self) {
        self.topics.queue_is_empty();
        self.accumulator.is_empty_again();
    }

    /// Forgets facts about topics that are too old.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.topics.forget_old(now);
    }

    /// Sends a record that was admitted. Never blocks. In bulk the record waits for [`Self::release`].
    ///
    /// # Errors
    /// When the record can never be sent.
    pub(crate) fn send(&mut self, record: &ProducerRecord<'_>, ticket: Ticket) -> Result<(), Rejection> {
        if let (Pace::Bulk, Some(partition)) = (self.pace, record.partition) {
            self.accumulator.push(record, partition, ticket);
            return Ok(());
        }
        self.transport.send(record, ticket, self.pace).inspect_err(|_| self.abandon())
    }

    /// Sends the collected records, except those that must wait for reports of their partition.
    ///
    /// # Errors
    /// When a record can never be sent.
    pub(crate) fn release(&mut self) -> Result<(), Rejection> {
        let Self { transport, accumulator, pace, .. } = self;
        let released = accumulator.release(|record, ticket| transport.send(record, ticket, *pace));
        released.map_err(|(rejection, rest)| {
            self.abandoned = self.abandoned.and(rest);
            self.abandon();
            rejection
        })
    }

    /// Collects the reports. `spare` is reused for the next batch, so that steady state allocates nothing.
    pub(crate) fn take(&mut self, spare: Vec<Delivered>) -> Reports {
        let mut reports = self.transport.take(spare);
        if reports.rejection.is_some() || reports.fatal.is_some() {
            // Nothing is written after a record that is not.
            self.abandon();
        }
        self.accumulator.landed(&reports.landed);
        let Abandoned { records, bytes } = std::mem::take(&mut self.abandoned);
        reports.failed_records = reports.failed_records.saturating_add(records);
        reports.failed_bytes = reports.failed_bytes.saturating_add(bytes);
        reports
    }

    /// Returns whether records wait until others are reported.
    pub(crate) const fn gathers(&self) -> bool {
        self.accumulator.gathers()
    }

    /// Abandons the records that wait: they are reported as failed.
    pub(crate) fn abandon(&mut self) {
        self.abandoned = self.abandoned.and(self.accumulator.abandon());
    }

    /// Begins to commit the open Kafka transaction, see [`Transport::commit`].
    pub(crate) fn commit(&mut self) {
        self.transport.commit();
    }

    /// Begins to abort the open Kafka transaction, see [`Transport::abort`].
    pub(crate) fn abort(&mut self) {
        self.transport.abort();
    }
}
