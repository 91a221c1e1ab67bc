//! Steps of a relay with exactly-once between the start of its stream and its first row.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use crate::kafka::Deliveries;
use crate::relay::delivery::exactly_once::{Batch, Begins, Known, Names, Patience, Source, State, Timelines};
use crate::relay::lifecycle::order::{NeedsFence, NeedsState, NeedsVisible};
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
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Fence(NeedsFence),
    State(NeedsState),
    /// Wait for transactions that are open in partitions, also without a state: the relay waits before its first record in a topic.
    Visible(Option<NeedsVisible>),
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
        Self { wire, origin, confirmed, stored, timelines, now, stage: Stage::Fence(NeedsFence::of_stream()) }
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
        let stage = std::mem::replace(&mut self.stage, Stage::Visible(None));
        let needs = match stage {
            Stage::Fence(needs) => {
                let waits = world.bug != Some(Bug::ConfirmsPromises);
                let is_fenced = coordinator.begin(client as u64);
                kafka.clients.get_mut(client)?.ender = Some(Ender::new(deliveries.generation(), waits));
                self.stage = if is_fenced { Stage::State(needs.fenced()) } else { Stage::Fence(needs) };
                return None;
            }
            Stage::State(needs) if !coordinator.is_seen(|place| place == STATE_PLACE) => {
                if world.rng.u8(..) < 20 {
                    coordinator.operate(&mut kafka.truth);
                }
                self.stage = Stage::State(needs);
                return None;
            }
            Stage::State(needs) => {
                self.stage = Stage::Visible(needs.read(read_state(coordinator, world.bug)));
                return None;
            }
            Stage::Visible(needs) => needs,
        };
        if world.bug != Some(Bug::WritesBehindLeftovers) && !coordinator.is_seen(|_| true) {
            if world.rng.u8(..) < 20 && coordinator.operate(&mut kafka.truth) {
                // The operator has given the relays another topic for their state.
                return None;
            }
            self.stage = Stage::Visible(needs);
            return None;
        }
        let Some(needs) = needs else { return Some(self.taken_over(Known::nothing(self.now))) };
        let at = match world.bug {
            Some(Bug::BelievesLsns) => Lsn::new(u64::MAX),
            _ => self.confirmed,
        };
        let begins = Begins { at, wal_end: Lsn::new(world.server.wal.end), now: self.now };
        // The real bound leaves room for a page, which is much here.
        let went_back = world.server.went_back > 0;
        if went_back && needs.state().place.furthest() > begins.wal_end {
            coordinator.start_over(&mut kafka.truth);
            return None;
        }
        match needs.visible(&self.source(), &self.timelines, begins) {
            Ok((known, _)) => Some(self.taken_over(known)),
            Err(_) if went_back => {
                coordinator.start_over(&mut kafka.truth);
                None
            }
            Err(error) => {
                kafka.truth.violate(format!("a state is refused: {error}"));
                Some(self.taken_over(Known::nothing(self.now)))
            }
        }
    }

    fn taken_over(&self, known: Known) -> (Batch, Known) {
        (self.batch(known), known)
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

/// Reads the state, correctly and with a planted bug.
fn read_state(coordinator: &Coordinator, bug: Option<Bug>) -> Option<State> {
    let state = match bug {
        Some(Bug::ReadsUncommitted) => coordinator.newest_state(),
        _ => coordinator.state(),
    };
    let mut state = State::parse(state?.as_bytes()).unwrap();
    state.place.more &= bug != Some(Bug::SkipsRestOfEvent);
    state.seen.take_if(|_| bug == Some(Bug::BelievesLsns));
    Some(state)
}
