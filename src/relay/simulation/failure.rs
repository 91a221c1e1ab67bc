//! Reaction to a failure of a session or a start: by the relay, and by its operator.

use super::kafka::pipe::Kafka;
use super::postgres::server::Server;
use super::process::{Process, State};
use super::start::refusal::is_refusal;
use super::world::World;
use crate::error::{Diagnose as _, Exit, chain};
use crate::kafka;
use crate::postgres;
use crate::relay::capture::captured::{CaptureError, CapturedTable};
use crate::relay::error::Error;
use crate::relay::lifecycle::control::Target;
use crate::relay::lifecycle::order::{Circumstances, react};
use crate::relay::lifecycle::retry::{Next, Producer, Step};
use crate::wal::{Lsn, Oid};

impl<'p> Process<'p> {
    pub(super) fn endure(&mut self, error: &Error, step: Step, world: &mut World<'p>) -> State<'p> {
        let told = || format!("  process {} endures: {}", self.number, chain(error));
        world.kafka.borrow().truth.report(told);
        let explained = match is_refusal(error) {
            true => self.is_explained(error, world),
            false => {
                is_expected(error) || self.went_back(error, world) || is_of_tables(error, self.number, world)
            }
        };
        if !explained {
            return self.broke(error, world);
        }
        self.mend(error, world);
        let circumstances = Circumstances {
            step,
            logged_in: step == Step::Session,
            stopping: self.target.get() == Target::Stop,
            retries_max: None,
            time_left: None,
            now: world.now,
            jitter: 0.0,
        };
        let next = react(error, circumstances, &mut self.memory);
        if is_refusal(error) && (next, error.exit()) != (Next::Stop, Exit::SlotLost) {
            return self.broke(error, world);
        }
        match next {
            Next::Stop | Next::Lasts | Next::StandBy { .. } => State::Ended,
            Next::NewProducer | Next::Retry { producer: Producer::New, .. } => {
                self.known = None;
                self.renew(world);
                State::Connecting
            }
            Next::Retry { producer: Producer::Same, .. } => State::Connecting,
        }
    }

    /// Reports an error that cannot happen while the servers comply with their protocols.
    pub(super) fn broke(&self, error: &Error, world: &World<'p>) -> State<'p> {
        let text = format!("process {} failed: {}", self.number, chain(error));
        world.kafka.borrow_mut().truth.violate(text);
        State::Ended
    }

    /// Does what the error asks the operator to do.
    fn mend(&self, error: &Error, world: &mut World<'p>) {
        if is_refusal(error) {
            return self.accept(error, world);
        }
        let World { server, kafka, rng, accept, .. } = world;
        let truth = &mut kafka.borrow_mut().truth;
        match error {
            Error::Postgres(postgres::Error::Precondition { .. } | postgres::Error::Unpublished { .. }) => {
                let tables: Vec<Oid> = self.memory.captured.roots().iter().map(CapturedTable::oid).collect();
                server.mend_publication(&tables, truth);
            }
            Error::Capture(_) => {
                server.move_slot(rng, truth);
                *accept = Some(Lsn::new(server.confirmed));
            }
            Error::Bind(_) => server.wal.mend_columns(truth),
            _ => {}
        }
    }

    /// Returns whether the relay has noticed that the server went back. Then the operator restarts the relays
    /// from nothing.
    fn went_back(&self, error: &Error, world: &World<'p>) -> bool {
        match error {
            Error::WentBack(_) => world.server.went_back > self.went_back,
            Error::OtherState { .. } if world.server.went_back > 0 => {
                let Kafka { cluster, truth, .. } = &mut *world.kafka.borrow_mut();
                if let Some(coordinator) = &mut cluster.coordinator {
                    coordinator.start_over(truth);
                }
                true
            }
            _ => false,
        }
    }
}

/// Returns whether an error can happen while the servers comply with their protocols.
const fn is_expected(error: &Error) -> bool {
    use kafka::Error::{Fatal, PositionTopic, Transaction, Unwritten};
    matches!(
        error,
        Error::Postgres(postgres::Error::Broken { .. })
            | Error::Kafka(Fatal(_) | Unwritten(_) | Transaction { .. } | PositionTopic { .. })
            | Error::Refused { .. }
    )
}

/// Returns whether an error of a process was caused by an alteration.
fn is_of_tables(error: &Error, process: usize, world: &World<'_>) -> bool {
    let truth = &world.kafka.borrow().truth;
    match error {
        // Where the history was lost, what a start has put into the publication may be lost with it.
        Error::Postgres(postgres::Error::Precondition { .. } | postgres::Error::Unpublished { .. }) => {
            let Server { wal, switches, went_back, .. } = &world.server;
            wal.was_unpublished() || !switches.is_empty() || *went_back > 0
        }
        Error::Capture(CaptureError::Unusable { .. }) | Error::Bind(_) => truth.identities.lost_columns(),
        // Without positions a start does not know the tables of its predecessors.
        Error::Capture(CaptureError::Unknown { .. }) => {
            let identities = &truth.identities;
            identities.lost_tables()
                || identities.is_unknown_to(process, &world.server.wal.catalog)
                || !truth.keeps_positions
        }
        _ => false,
    }
}
