//! The event whose schema the registry refused.

use super::Feed;
use crate::error::{Diagnose as _, Exit};
use crate::kafka::Transport;
use crate::registry;
use crate::relay::error::Error;

impl<T: Transport> Feed<'_, T> {
    /// Records that the registry has no id for the schema of the waiting event, which is handled again and
    /// given up then.
    ///
    /// # Errors
    /// The same, unless this is about the row.
    pub(in crate::relay) fn refuse(&mut self, error: registry::Error) -> Result<(), Error> {
        match &mut self.out.again {
            Some(again) if error.exit() == Exit::Row => again.refused = Some(error.into()),
            _ => return Err(error.into()),
        }
        Ok(())
    }
}
