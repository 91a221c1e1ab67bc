use super::{Feed, Outcome};
use crate::error::{Diagnose as _, Exit};
use crate::kafka::Transport;
use crate::outbox::RawRecord;
use crate::registry;
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::transaction::EventPosition;

impl<T: Transport> Feed<'_, T> {
    /// The registry has no id for the schema of the event that waits. It is taken again, and given up then.
    ///
    /// # Errors
    /// The same, unless this is about the row.
    pub(in crate::relay) fn refuse(&mut self, error: registry::Error) -> Result<(), Error> {
        match &mut self.again {
            Some(again) if error.exit() == Exit::Row => again.refused = Some(error.into()),
            _ => return Err(error.into()),
        }
        Ok(())
    }

    /// What becomes of a row or a message that makes no event: it ends the relay, goes to the dead-letter topic, or is passed
    /// over.
    pub(super) fn give_up(
        &mut self,
        error: Error,
        remains: Option<RawRecord>,
        position: EventPosition,
        now: Now,
    ) -> Result<Outcome, Error> {
        if let Some(remains) = remains {
            let need = self.dispatch.send_remains(&mut self.flight, remains, error, position, now)?;
            return Ok(need.map_or(Outcome::None, Outcome::Await));
        }
        self.pass_over(error)?;
        Ok(Outcome::None)
    }

    /// Tells of a row, or of a record of one, that is passed over; or gives the error back.
    pub(super) fn pass_over(&self, error: Error) -> Result<(), Error> {
        self.metrics.event_error("route");
        let table = error.table().map(str::to_owned);
        self.tolerance.pass_over(error)?;
        if let Some(table) = table {
            self.metrics.rows_not_sent(&table, "errors.tolerance").count();
        }
        Ok(())
    }
}
