//! Driver of a session's end: drains, closes the connection, and waits for the records in flight.

use super::bug::Bug;
use super::kafka::pipe::Kafka;
use super::process::{Process, State};
use super::session::{Session, broken};
use super::world::World;
use crate::kafka::{self, TransactionFault};
use crate::relay::error::Error;
use crate::relay::lifecycle::control::Target;
use crate::relay::lifecycle::order::{Beginning, Ended, Settling};
use crate::relay::lifecycle::retry::Step;
use crate::relay::pipeline::core::{Draining, Ending};
use crate::relay::time::clock::Now;
use crate::wal::TimelineId;

impl<'p> Process<'p> {
    /// Sends CopyDone: the server reads everything before it leaves.
    pub(super) fn end_stream(&mut self, mut session: Box<Session<'p>>, world: &mut World<'p>) -> State<'p> {
        if session.wire.borrow().closed {
            return self.hang_up(session, Ended::Failed(broken()), world.now());
        }
        let mut kafka = world.kafka.borrow_mut();
        world.server.read_updates(&mut kafka.truth);
        session.wire.borrow_mut().closed = true;
        // A row that waits for its topic does not hold up a stop: then those before it in its transaction come again.
        let flight = &session.core.feed.out.flight;
        if !flight.in_transaction() && session.core.positions.is_stored(flight.frontier()) {
            kafka.truth.stopped(self.number);
        }
        // A process that continues knows what it has handed over.
        if self.is_history(&session, world) {
            kafka.truth.settled(self.number);
        }
        drop(kafka);
        let settling = Settling::begin(Ended::Whole, &mut session.core, &mut self.memory, world.now());
        self.settle(session, settling, world)
    }

    /// Drains after a failure: a refusal is final once nothing is in flight.
    pub(super) fn drain(
        &mut self,
        mut session: Box<Session<'p>>,
        error: Error,
        mut ending: Ending,
        world: &World<'p>,
    ) -> State<'p> {
        let drained = session.drain(&mut ending, world.now());
        let is_whole = matches!(drained, Ok(Draining::Done));
        match drained {
            Ok(Draining::Wait) => return State::Draining(session, error, ending),
            Ok(Draining::Purge) => {
                self.purge(world);
                return State::Draining(session, error, ending);
            }
            Ok(Draining::Done | Draining::Late) | Err(_) => {}
        }
        let cause = ending.cause(&mut session.core, world.now());
        if is_whole {
            self.check_cause(cause.as_ref(), &error, world);
        }
        self.hang_up(session, Ended::Failed(cause.unwrap_or(error)), world.now())
    }

    /// Closes the connection after a failure that needs no drain.
    pub(super) fn hang_up_at_once(
        &mut self,
        session: Box<Session<'p>>,
        ended: Ended,
        world: &World<'p>,
    ) -> State<'p> {
        if let Ended::Failed(error @ Error::Kafka(_)) = &ended {
            self.check_cause(Some(error), error, world);
        }
        self.hang_up(session, ended, world.now())
    }

    /// Checks L12: a session does not end over a failure of the producer whose cause is a refused record.
    fn check_cause(&self, cause: Option<&Error>, error: &Error, world: &World<'p>) {
        let mut kafka = world.kafka.borrow_mut();
        let Kafka { clients, truth, .. } = &mut *kafka;
        let refused = self.clients.iter().filter(|client| clients[**client].take_refused()).count();
        // A record of which nothing is known, and another relay, come before it.
        let is_explained = match cause {
            Some(Error::Refused { .. } | Error::Kafka(kafka::Error::Unwritten(_))) => true,
            Some(Error::Kafka(kafka::Error::Transaction { fault, .. })) => *fault == TransactionFault::Fenced,
            _ => false,
        };
        if refused > 0 && !is_explained {
            let named = cause.unwrap_or(error);
            truth.violate(format!("L12: a record was refused, and the session ends over {named}"));
        }
    }

    fn hang_up(&mut self, mut session: Box<Session<'p>>, ended: Ended, now: Now) -> State<'p> {
        session.wire.borrow_mut().closed = true;
        let settling = Settling::begin(ended, &mut session.core, &mut self.memory, now);
        State::Settling(session, settling)
    }

    pub(super) fn settle(
        &mut self,
        mut session: Box<Session<'p>>,
        mut settling: Settling,
        world: &mut World<'p>,
    ) -> State<'p> {
        let gives_up = world.bug == Some(Bug::DoesNotSettle) || self.target.get() == Target::Stop;
        match settling.turn(&mut session.core, gives_up, world.now()) {
            Err(error) => return self.broke(&error, world),
            Ok(Draining::Wait) => return State::Settling(session, settling),
            Ok(Draining::Purge) => {
                if world.bug != Some(Bug::WaitsForEver) {
                    self.purge(world);
                }
                return State::Settling(session, settling);
            }
            Ok(Draining::Done | Draining::Late) => {}
        }
        let waited = settling.waits() && !gives_up;
        let Err(error) = self.remember(&mut session, settling, world) else { return State::Connecting };
        if waited {
            self.check_cause(Some(&error), &error, world);
        }
        let failed = matches!(error, Error::Kafka(_) | Error::Refused { .. });
        if waited && !failed && self.is_history(&session, world) {
            world.kafka.borrow_mut().truth.settled(self.number);
        }
        self.endure(&error, Step::Session, world)
    }

    fn purge(&self, world: &World<'p>) {
        let mut kafka = world.kafka.borrow_mut();
        self.clients.iter().for_each(|client| kafka.clients[*client].purge());
    }

    /// Returns whether the server's history is the one with which the session began.
    fn is_history(&self, session: &Session<'p>, world: &World<'p>) -> bool {
        session.origin.timeline == TimelineId(world.server.timeline)
            && self.streams_after == world.server.went_back
    }

    fn remember(
        &mut self,
        session: &mut Session<'p>,
        settling: Settling,
        world: &mut World<'p>,
    ) -> Result<(), Error> {
        let before = self.memory.acknowledged.clone().filter(|(known, _)| *known == session.origin);
        let beginning = Beginning { origin: session.origin.clone(), confirmed: session.confirmed };
        let outcome = settling.end(&mut session.core, &mut self.memory, beginning, world.now());
        if world.bug == Some(Bug::BelievesLsns)
            && let (Some((_, before)), Some((_, after))) = (before, &mut self.memory.acknowledged)
        {
            after.to = after.to.max(before.to);
        }
        if self.memory.offset_is_ours {
            world.offset.clone_from(&self.memory.offset);
        }
        outcome
    }
}
