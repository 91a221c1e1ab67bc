//! Runs of a handler from the same start.

use std::sync::Arc;

use super::interrupt::{Outcome, interrupt};
use super::judge::{HarnessError, Start};
use super::plan::{Plan, Step};
use crate::consumer::{Delivery, Failure, Handler};
use crate::core::PartitionId;
use crate::event::{Event, IdScope, IdSource, Identity};
use crate::postgres::{self, Connection, Entered, Mark, Opener, Remembers, Tenancy};

/// Handler with its events, to be run repeatedly from the same start.
pub(super) struct Run<'r, H> {
    opener: Opener,
    start: &'r Start,
    events: Vec<(Arc<Event>, Identity)>,
    handler: H,
}

/// Result of handling an event.
enum Handled {
    /// The transaction was committed. The value is the number of the handler's waits; 0 if the event had been done before.
    Done(u32),
    Failed(Failure),
    /// The connection was dropped before the end.
    Interrupted,
}

impl<'r, H: Handler> Run<'r, H> {
    pub(super) fn new(
        opener: Opener,
        start: &'r Start,
        events: &[Event],
        handler: H,
    ) -> Result<Self, HarnessError> {
        let ids = IdSource::default();
        let with_id = |(index, event): (usize, &Event)| {
            let offset = i64::try_from(index).unwrap_or(i64::MAX);
            let event = Event { offset, ..event.clone() };
            let identity = ids.identity(&event, IdScope::Topic, &event.topic)?;
            Ok((Arc::new(event), identity))
        };
        let events: Result<_, HarnessError> = events.iter().enumerate().map(with_id).collect();
        Ok(Self { opener, start, events: events?, handler })
    }

    /// Runs each event once. Returns the effect, and the number of the handler's waits for each event.
    pub(super) async fn in_peace(&self) -> Result<(Vec<String>, Vec<u32>), HarnessError> {
        let (tenancy, connection) = self.begin().await?;
        let mut awaits = Vec::new();
        for event in 0..self.events.len() {
            match self.handle(&tenancy, event, u32::MAX).await? {
                Handled::Done(waits) => awaits.push(waits),
                Handled::Failed(failure) => return Err(self.failed(event, &failure, "nothing")),
                Handled::Interrupted => awaits.push(0),
            }
        }
        Ok((self.start.observe(&connection).await?, awaits))
    }

    /// Runs a plan and returns its effect.
    pub(super) async fn follow(&self, plan: &Plan) -> Result<Vec<String>, HarnessError> {
        let (tenancy, connection) = self.begin().await?;
        for step in &plan.steps {
            match *step {
                Step::Interrupt { event, at } => drop(self.handle(&tenancy, event, at).await?),
                Step::Handle { event } => {
                    if let Handled::Failed(failure) = self.handle(&tenancy, event, u32::MAX).await? {
                        return Err(self.failed(event, &failure, &plan.to_string()));
                    }
                }
                Step::HandleTwice { event } => {
                    let handle = || self.handle(&tenancy, event, u32::MAX);
                    let (one, other) = tokio::try_join!(handle(), handle())?;
                    if let (Handled::Failed(failure), _) | (_, Handled::Failed(failure)) = (one, other) {
                        return Err(self.failed(event, &failure, &plan.to_string()));
                    }
                }
            }
        }
        self.start.observe(&connection).await
    }

    /// Resets the start and takes the partition under a new consumer name, so that no event is known as done.
    async fn begin(&self) -> Result<(Tenancy, Connection), HarnessError> {
        let connection = self.opener.connect().await?;
        self.start.reset(&connection).await?;
        let name: Arc<str> = Arc::from(format!("testing-{:016x}", fastrand::u64(..)));
        let id = PartitionId { topic: Arc::from("testing"), partition: 0 };
        let taken = postgres::take(&connection, &name, &id, Remembers::Ids, None).await?;
        Ok((taken.tenancy, connection))
    }

    /// Handles an event on a connection of its own, which is dropped afterwards as with a process.
    async fn handle(&self, tenancy: &Tenancy, event: usize, at: u32) -> Result<Handled, HarnessError> {
        let Some((event, identity)) = self.events.get(event) else { return Ok(Handled::Done(0)) };
        let connection = self.opener.connect().await?;
        let new = match connection.enter(tenancy, Mark::Known, &[identity]).await? {
            Entered::Fenced => return Err(HarnessError::Fenced),
            Entered::New(new) => new,
        };
        if new.is_empty() {
            connection.commit(tenancy, Mark::Known).await?;
            return Ok(Handled::Done(0));
        }
        let delivery = Delivery::new(Arc::clone(event), identity.clone(), 1);
        let (result, waits) = match interrupt(self.handler.handle(&connection, vec![delivery]), at).await {
            Outcome::Ended(result, waits) => (result, waits),
            Outcome::Interrupted => return Ok(Handled::Interrupted),
        };
        if !connection.is_given_back() {
            return Ok(Handled::Failed(postgres::Error::TransactionKept.into()));
        }
        if let Err(failure) = result {
            connection.roll_back(tenancy, Mark::Known).await?;
            return Ok(Handled::Failed(failure));
        }
        match at.saturating_sub(waits) {
            1 => Ok(Handled::Interrupted),
            2 => {
                drop(interrupt(connection.commit(tenancy, Mark::Known), 1).await);
                Ok(Handled::Interrupted)
            }
            _ => match connection.commit(tenancy, Mark::Known).await {
                Ok(()) => Ok(Handled::Done(waits)),
                Err(error) if error.is_transient() => Err(error.into()),
                // The handler returned `Ok`, and its effect is lost.
                Err(error) => Ok(Handled::Failed(error.into())),
            },
        }
    }

    fn failed(&self, event: usize, failure: &Failure, schedule: &str) -> HarnessError {
        let id = self.events.get(event).map(|(_, identity)| identity.id.to_string()).unwrap_or_default();
        HarnessError::Failed { id, schedule: schedule.to_owned(), error: failure.chain() }
    }
}
