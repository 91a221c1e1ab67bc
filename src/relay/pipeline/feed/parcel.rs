//! The rows of a snapshot in parts that are acknowledged one by one, since a snapshot has no commits.

use std::mem;

use super::Feed;
use crate::ack::Ticket;
use crate::kafka::Transport;
use crate::relay::error::Error;

/// A snapshot's one transaction, in parcels.
impl<T: Transport> Feed<'_, T> {
    /// Ends a parcel. Returns the ticket of its records, unless all are acknowledged.
    ///
    /// # Errors
    /// When no transaction is open.
    pub(in crate::relay) fn end_parcel(&mut self) -> Result<Option<Ticket>, Error> {
        match &self.place.open {
            Some(begin) => self.out.flight.divide(begin),
            None => Ok(None),
        }
    }

    /// Continues in the transaction that another feed has open, behind this number of its events. That feed's
    /// records in flight are given up.
    ///
    /// # Errors
    /// When a transaction is open already.
    pub(in crate::relay) fn continue_from(&mut self, other: &mut Self, events: u64) -> Result<(), Error> {
        self.tables = mem::take(&mut other.tables);
        if let Some(begin) = other.place.open {
            self.begin(begin)?;
            self.place.assembler.pass(other.place.assembler.lsn(), events);
        }
        Ok(())
    }
}
