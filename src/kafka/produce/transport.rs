//! The boundary between the outlet and librdkafka, at which the simulation puts its model.

use super::delivery::{Delivered, Reports};
use super::pace::Pace;
use super::producer::Inlet;
use super::rejection::Rejection;
use crate::ack::Ticket;
use crate::connect::record::ProducerRecord;

/// Path of records to the brokers: librdkafka, or in the simulation a model of it.
pub(crate) trait Transport {
    /// Hands a record over. It never blocks.
    ///
    /// # Errors
    /// When the record can never be sent.
    fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket, pace: Pace) -> Result<(), Rejection>;

    /// Collects the reports. `spare` is reused for the next batch, so that steady state allocates nothing.
    fn take(&self, spare: Vec<Delivered>) -> Reports;

    /// Returns whether the load decides between two ways of sending.
    fn follows_load(&self) -> bool;

    /// Returns whether records go out in Kafka transactions.
    fn is_transactional(&self) -> bool;

    /// Begins to commit the open Kafka transaction, all of whose records are acknowledged; [`Reports::ended`]
    /// has the outcome. After a commit the next transaction is open.
    fn commit(&mut self) {}

    /// Begins to abort the open Kafka transaction: unacknowledged records are reported as failed, then [`Reports::ended`].
    fn abort(&mut self) {}
}

impl Transport for Inlet {
    fn send(&self, record: &ProducerRecord<'_>, ticket: Ticket, pace: Pace) -> Result<(), Rejection> {
        Self::send(self, record, ticket, pace)
    }

    fn take(&self, spare: Vec<Delivered>) -> Reports {
        self.deliveries().take(spare)
    }

    fn follows_load(&self) -> bool {
        Self::follows_load(self)
    }

    fn is_transactional(&self) -> bool {
        Self::is_transactional(self)
    }

    fn commit(&mut self) {
        Self::commit(self);
    }

    fn abort(&mut self) {
        Self::abort(self);
    }
}
