//! What a relay with exactly-once does between the start of its stream and its first row.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::bug::Bug;
use super::coordinator::{Coordinator, Ender, STATE_PLACE};
use super::process::World;
use super::server::Wire;
use super::table;
use crate::kafka::Deliveries;
use crate::relay::exactly_once::{Batch, Known, Names, Patience, Source, State, Timelines};
use crate::relay::link::Origin;
use crate::wal::{Lsn, TimelineId};

/// A few turns.
const INTERVAL: Duration = Duration::from_millis(50);

/// A stream that has started.
#[derive(Debug)]
pub(super) struct Takeover {
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) origin: Origin,
    pub(super) confirmed: Lsn,
    timelines: Timelines,
    wal_end: Lsn,
    begun: bool,
}

impl Takeover {
    pub(super) fn new(wire: Rc<RefCell<Wire>>, origin: Origin, world: &World<'_>) -> Self {
        let switch = |(timeline, at): &(u32, u64)| (TimelineId(*timeline), Lsn::new(*at));
        let timelines = Timelines { switches: world.server.switches.iter().map(switch).collect() };
        let (confirmed, wal_end) = (Lsn::new(world.server.confirmed), Lsn::new(world.server.wal.end));
        Self { wire, origin, confirmed, timelines, wal_end, begun: false }
    }

    /// The planted bug: the stream begins where the state says.
    pub(super) fn skip(world: &mut World<'_>) {
        let kafka = world.kafka.borrow();
        let state = kafka.cluster.coordinator.as_ref().and_then(Coordinator::state);
        if let Some(state) = state.filter(|_| world.bug == Some(Bug::StartsAtState)) {
            let state = State::parse(state.as_bytes()).unwrap();
            world.server.skip_to(state.place.furthest().get());
        }
    }

    /// Fences the predecessor, and then reads the state. Others may do much in between.
    pub(super) fn step(
        &mut self,
        world: &mut World<'_>,
        client: usize,
        deliveries: &Deliveries,
        before: Option<Known>,
    ) -> Option<(Batch, Known)> {
        let mut kafka = world.kafka.borrow_mut();
        let kafka = &mut *kafka;
        let coordinator = kafka.cluster.coordinator.as_mut()?;
        if let Some(known) = before.filter(|_| world.bug == Some(Bug::ReusesProducer)) {
            return Some((self.batch(known), known));
        }
        if !self.begun {
            self.begun = coordinator.begin(client as u64);
            let waits = world.bug != Some(Bug::ConfirmsPromises);
            kafka.clients.get_mut(client)?.ender = Some(Ender::new(deliveries.generation(), waits));
            return None;
        }
        let waits = world.bug != Some(Bug::WritesBehindLeftovers);
        if !coordinator.is_seen(|place| waits || place == STATE_PLACE) {
            if world.rng.u8(..) < 20 {
                coordinator.operate(&mut kafka.truth);
            }
            return None;
        }
        let state = match world.bug {
            Some(Bug::ReadsUncommitted) => coordinator.newest_state(),
            _ => coordinator.state(),
        };
        let state = state.map(|state| State::parse(state.as_bytes()).unwrap());
        let known = state.map(|state| Known::new(&state, &self.source(), &self.timelines, self.wal_end));
        let known = match known {
            None => Known::default(),
            Some(Ok(known)) => known,
            Some(Err(error)) => {
                kafka.truth.violate(format!("a state is refused: {error}"));
                Known::default()
            }
        };
        Some((self.batch(known), known))
    }

    fn batch(&self, known: Known) -> Batch {
        let names = Names { id: "id".to_owned(), state_topic: table::STATE_TOPIC.to_owned() };
        Batch::new(names, known, self.source(), Patience::new(INTERVAL, 1000 * INTERVAL))
    }

    fn source(&self) -> Source {
        Source {
            system_id: self.origin.system_id.clone(),
            timeline: self.origin.timeline,
            ..Source::default()
        }
    }
}
