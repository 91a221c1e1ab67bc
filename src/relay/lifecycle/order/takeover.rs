//! Order of a take-over of Kafka transactions, between the start of the stream and its first row: this relay must have the slot
//! already, and afterwards no other producer can commit.

use crate::relay::delivery::exactly_once::{Begins, Known, Mismatch, Source, State, Timelines};

/// Take-over that begins. Next, the producer of the relay that had the slot before is fenced.
#[derive(Debug)]
pub(in crate::relay) struct NeedsFence(());

/// Take-over whose predecessor can commit no more. Next, the state of the last committed transaction is read.
#[derive(Debug)]
pub(in crate::relay) struct NeedsState(());

/// Take-over with a known state. Next, its transaction must be visible in all of its topics: one that is in the topic of the state,
/// and that Kafka has forgotten in another, is no reason to confirm anything.
#[derive(Debug)]
pub(in crate::relay) struct NeedsVisible(Box<State>);

impl NeedsFence {
    pub(in crate::relay) const fn of_stream() -> Self {
        Self(())
    }

    pub(in crate::relay) const fn fenced(self) -> NeedsState {
        NeedsState(())
    }
}

impl NeedsState {
    /// Continues with the state; returns `None` without one: rows are sent from the slot's position.
    pub(in crate::relay) fn read(self, state: Option<State>) -> Option<NeedsVisible> {
        state.map(|state| NeedsVisible(Box::new(state)))
    }
}

impl NeedsVisible {
    pub(in crate::relay) const fn state(&self) -> &State {
        &self.0
    }

    /// Ends with the rows that are in Kafka, and with the state. `begins` is read now: the outboxd that had the slot before may have
    /// written the state a moment ago.
    ///
    /// # Errors
    /// When the state is of another source.
    pub(in crate::relay) fn visible(
        self,
        source: &Source,
        timelines: &Timelines,
        begins: Begins,
    ) -> Result<(Known, State), Mismatch> {
        let known = Known::new(&self.0, source, timelines, begins)?;
        Ok((known, *self.0))
    }
}
