//! Steps of a relay with exactly-once between the start of its stream and its first row.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::kafka::Deliveries;
use crate::relay::delivery::exactly_once::{Batch, Begins, Known, Names, Patience, Source, State, Timelines};
use crate::relay::origin::Origin;
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::kafka::coordinator::{Coordinator, Ender, STATE_PLACE};
use crate::relay::simulation::postgres::server::Wire;
use crate::relay::simulation::rows::table;
use crate::relay::simulation::world::World;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp, TimelineId};

/// A few turns.
const INTERVAL: Duration = Duration::from_millis(50);

/// A stream that has started.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Takeover {
    pub(in crate::relay::simulation) wire: Rc<RefCell<Wire>>,
    pub(in crate::relay::simulation) origin: Origin,
    pub(in crate::relay::simulation) confirmed: Lsn,
    /// The offset that was stored for the slot when the process began.
    pub(in crate::relay::simulation) stored: Option<SourceOffset>,
    timelines: Timelines,
    /// Time of the server's clock.
    pub(in crate::relay::simulation) now: PgTimestamp,
    begun: bool,
}

impl Takeover {
    pub(in crate::relay::simulation) fn new(
        wire: Rc<RefCell<Wire>>,
        origin: Origin,
        stored: Option<SourceOffset>,
        world: &World<'_>,
    ) -> Self {
        let switch = |(timeline, at): &(u32, u64)| (TimelineId(*timeline), Lsn::new(*at));
        let timelines = Timelines { switches: world.server.switches.iter().map(switch).collect() };
        let (confirmed, now) = (Lsn::new(world.server.confirmed), world.server.wal.clock);
        Self { wire, origin, confirmed, stored, timelines, now, begun: false }
    }

    /// Plants the bug: the stream begins at the state's place.
    pub(in crate::relay::simulation) fn skip(world: &mut World<'_>) {
        let kafka = world.kafka.borrow();
        let state = kafka.cluster.coordinator.as_ref().and_then(Coordinator::state);
        if let Some(state) = state.filter(|_| world.bug == Some(Bug::StartsAtState)) {
            let state = State::parse(state.as_bytes()).unwrap();
            world.server.skip_to(state.place.furthest().get());
        }
    }

    /// Fences the predecessor, and then reads the state. Others may do much in between.
    pub(in crate::relay::simulation) fn step(
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
        let mut begins =
            Begins { at: self.confirmed, wal_end: Lsn::new(world.server.wal.end), now: self.now };
        // The real bound leaves room for a page, which is much here.
        let is_ahead = |state: &State| world.server.went_back > 0 && state.place.furthest() > begins.wal_end;
        if state.as_ref().is_some_and(is_ahead) {
            coordinator.start_over(&mut kafka.truth);
            return None;
        }
        let known = state.map(|mut state| {
            if world.bug == Some(Bug::SkipsRestOfEvent) {
                state.place.more = false;
            }
            if world.bug == Some(Bug::BelievesLsns) {
                (state.seen, begins.at) = (None, Lsn::new(u64::MAX));
            }
            Known::new(&state, &self.source(), &self.timelines, begins)
        });
        let known = match known {
            None => Known::nothing(self.now),
            Some(Ok(known)) => known,
            Some(Err(_)) if world.server.went_back > 0 => {
                coordinator.start_over(&mut kafka.truth);
                return None;
            }
            Some(Err(error)) => {
                kafka.truth.violate(format!("a state is refused: {error}"));
                Known::nothing(self.now)
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
