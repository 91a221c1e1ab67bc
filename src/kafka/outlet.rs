use std::time::Instant;

use super::admission::{Admission, Topics};
use super::delivery::{Delivered, Reports};
use super::pace::Pace;
use super::producer::Inlet;
use super::rejection::Rejection;
use super::transport::Transport;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// Where records go out, and where what became of them comes back: all that the relay's core knows of Kafka.
///
/// It also knows what librdkafka cannot do without: that the brokers know a topic before its first record is sent, that the
/// first record of a partition travels alone, and that the way of sending changes only while nothing is in flight. So a
/// record is admitted first, and sent then.
#[derive(Debug)]
pub(crate) struct Outlet<T = Inlet> {
    transport: T,
    topics: Topics,
    pace: Pace,
}

impl<T: Transport> Outlet<T> {
    /// No topic is known yet.
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, topics: Topics::default(), pace: Pace::default() }
    }

    /// Chooses the way of sending, with so many records in flight, when the source has (`behind`) or has not much more to give.
    /// Whether records may be sent just now.
    pub(crate) fn follow_load(&mut self, inflight: usize, behind: bool) -> bool {
        if self.transport.follows_load() {
            self.pace = self.pace.next(inflight, behind);
        }
        self.pace.allows_sending()
    }

    /// The partition of a record that can be sent now, or what must be known or done first.
    pub(crate) fn admit(&mut self, record: &ProducerRecord<'_>) -> Admission {
        self.topics.admit(record, self.pace)
    }

    /// The brokers were asked for a topic: it has so many partitions, 0 when that is not known.
    pub(crate) fn learn_topic(&mut self, topic: String, partitions: usize, asked: Instant) {
        // What follows a lost record is aborted with it: the first of a partition need not travel alone.
        let watched = if self.transport.is_transactional() { 0 } else { partitions };
        self.topics.insert(topic, partitions, watched, asked);
    }

    /// Whether the topic had this partition when it was asked for.
    pub(crate) fn had_partition(&self, topic: &str, partition: i32) -> bool {
        self.topics.had(topic, partition)
    }

    /// Everything in flight has come back.
    pub(crate) const fn queue_is_empty(&mut self) {
        self.topics.queue_is_empty();
    }

    /// Forgets what is known of topics when it is too old.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        self.topics.forget_old(now);
    }

    /// Hands a record over that was admitted. It never blocks.
    ///
    /// # Errors
    /// When the record can never be sent.
    pub(crate) fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket) -> Result<(), Rejection> {
        self.transport.send(record, ticket, self.pace)
    }

    /// Takes what has come back. `spare` is kept for the next batch, so that steady state allocates nothing.
    pub(crate) fn take(&self, spare: Vec<Delivered>) -> Reports {
        self.transport.take(spare)
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
