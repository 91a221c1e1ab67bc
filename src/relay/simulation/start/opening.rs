//! Driver of a start: answers its questions from the models, and passes on what they show.

use std::cell::RefCell;
use std::rc::Rc;

use super::refusal::Causes;
use super::takeover::Takeover;
use crate::postgres::{APPLICATION, Slot, SlotHolder, SnapshotMode};
use crate::relay::capture::captured::{CapturedTable, CapturedTables};
use crate::relay::capture::preflight::Site;
use crate::relay::delivery::exactly_once::State as KafkaState;
use crate::relay::error::Error;
use crate::relay::lifecycle::order::{
    Begun, CatchUp, CaughtUp, Found, Grounds, Judged, Judging, NeedsStream, NeedsTables, PositionQuestion,
    Preparation, Started, Tables, react_to_holder,
};
use crate::relay::lifecycle::retry::{Next, Step};
use crate::relay::options::Guarantee;
use crate::relay::origin::Origin;
use crate::relay::progress::comparison::{Comparison, FoundSlot, Known};
use crate::relay::progress::position::Position;
use crate::relay::progress::position_store::Positions;
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::kafka::coordinator::Coordinator;
use crate::relay::simulation::postgres::server::Wire;
use crate::relay::simulation::postgres::slot::SlotLook;
use crate::relay::simulation::process::{Process, State};
use crate::relay::simulation::world::World;
use crate::wal::{Lsn, Oid, TimelineId};

const SLOT: &str = "outboxd";

/// `snapshot.mode`: the model has no snapshots.
const MODE: SnapshotMode = SnapshotMode::NoData;

pub(in crate::relay::simulation) const DATABASE: &str = "shop";
pub(in crate::relay::simulation) const DATABASE_OID: Oid = Oid(5);

/// A start that waits: for the position, or for its turn.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Opening {
    site: Site,
    stage: Stage,
    /// The stream, when it has started.
    pub(in crate::relay::simulation) wire: Option<Rc<RefCell<Wire>>>,
    /// Number of the server's crashes.
    crashes: usize,
}

#[derive(Debug)]
enum Stage {
    /// The slot is judged, before the stream or again after it has started.
    Judging(PositionQuestion),
    /// The position of another relay is read.
    CatchUp(Box<Found>, CatchUp),
}

/// Result of the questions that are answered at once.
enum Answered {
    Waits(PositionQuestion),
    Judged(Judged),
}

/// Inputs of each step of a start.
struct Rest {
    site: Site,
    wire: Option<Rc<RefCell<Wire>>>,
    crashes: usize,
}

impl Rest {
    fn in_stage(self, stage: Stage) -> Opening {
        let Self { site, wire, crashes } = self;
        Opening { site, stage, wire, crashes }
    }
}

impl<'p> Process<'p> {
    pub(in crate::relay::simulation) fn connect(&mut self, world: &mut World<'p>) -> State<'p> {
        let (origin, known) = (world.server.origin(), self.memory.known());
        self.causes = Causes {
            touched: world.server.is_touched(),
            other_history: known.is_some() && self.streams_after < world.server.went_back,
        };
        let needs = match NeedsTables::at_server(known.as_ref(), &origin, world.server.told_end()) {
            Ok(needs) => needs,
            Err(error) => return self.endure(&error, Step::Opening, world),
        };
        match self.capture(world).start(&world.server.wal.catalog) {
            Ok(tables) => world.server.wal.publish(&tables, &mut world.kafka.borrow_mut().truth),
            Err(error) => return self.endure(&error, Step::Opening, world),
        }
        let Tables::Publish(needs) = needs.found(MODE) else { return State::Ended };
        let slot = match world.server.look() {
            SlotLook::Active => return self.stand_by(),
            SlotLook::Missing if world.bug == Some(Bug::CreatesAtOnce) => return self.make_slot(world),
            SlotLook::Missing => None,
            SlotLook::At(confirmed_flush_lsn) => Some(Slot { confirmed_flush_lsn, created: false }),
        };
        let site = Site { origin, database: DATABASE_OID, in_recovery: false };
        let begun = needs.found(slot, self.grounds(&site, known.as_ref(), &self.memory.captured, world));
        let start = Rest { site, wire: None, crashes: world.server.crashes };
        self.judge(begun, start, world)
    }

    /// Meets another relay that has the slot.
    fn stand_by(&mut self) -> State<'p> {
        let holder = SlotHolder {
            slot: SLOT.to_owned(),
            pid: 1,
            application: APPLICATION.to_owned(),
            client: String::new(),
            other: None,
            has_slot: true,
        };
        match react_to_holder(&holder, None, None, 0.0, &mut self.memory) {
            Next::StandBy { .. } => State::Connecting,
            Next::Stop | Next::Lasts | Next::NewProducer | Next::Retry { .. } => State::Ended,
        }
    }

    /// Answers the questions that no other server has to be waited for.
    fn judge(&mut self, judging: Judging, rest: Rest, world: &mut World<'p>) -> State<'p> {
        match self.answer(judging, &rest, world) {
            Ok(Answered::Waits(question)) => State::Opening(rest.in_stage(Stage::Judging(question))),
            Ok(Answered::Judged(judged)) if rest.wire.is_some() => {
                let known = self.memory.known();
                let comparison = self.comparison(world, known.as_ref(), &self.memory.captured);
                match Started::judged(judged, &comparison) {
                    Ok(started) => self.started(started, rest, world),
                    Err(error) => self.refuse(&rest, &error, world),
                }
            }
            Ok(Answered::Judged(judged)) => self.prepare(Ok(judged), rest, world),
            Err(error) if rest.wire.is_some() => self.refuse(&rest, &error, world),
            Err(error) => self.prepare(Err(error), rest, world),
        }
    }

    fn answer(&self, mut judging: Judging, rest: &Rest, world: &mut World<'p>) -> Result<Answered, Error> {
        let known = self.memory.known();
        // One of a history that is gone is refused at start, and the operator removes it.
        let end = Lsn::new(world.server.wal.end);
        world.offset.take_if(|offset| offset.furthest() > end);
        let world = &*world;
        let grounds = self.grounds(&rest.site, known.as_ref(), &self.memory.captured, world);
        loop {
            judging = match judging {
                Judging::Taker(question) => question.answered(None, grounds)?,
                Judging::Offset(question) => question.answered(world.offset.clone(), grounds),
                Judging::State(question) => question.answered(last_state(world), grounds)?,
                Judging::OffsetLeft(question) => {
                    let left = world.offset.as_ref().map(|left| (left.snapshot, "offsets".to_owned()));
                    question.answered(left, grounds)
                }
                Judging::Position(question) if world.bug == Some(Bug::DoesNotCompare) => question
                    .answered(None, Some(world.server.told_end()), grounds, world.now())?
                    .next(grounds)?,
                Judging::Position(question) => return Ok(Answered::Waits(question)),
                Judging::Handover(question) => question.answered(false)?,
                Judging::Judged(judged) => return Ok(Answered::Judged(judged)),
            };
        }
    }

    /// Reads the position that a start waits for.
    pub(in crate::relay::simulation) fn wait(
        &mut self,
        opening: Opening,
        world: &mut World<'p>,
    ) -> State<'p> {
        let Some(read) = self.read_position(world) else { return State::Opening(opening) };
        let Opening { site, stage, wire, crashes } = opening;
        let rest = Rest { site, wire, crashes };
        // The server is asked again behind the position.
        let is_cut = rest.wire.as_ref().is_some_and(|wire| wire.borrow().closed);
        if is_cut || crashes < world.server.crashes {
            return State::Connecting;
        }
        match stage {
            Stage::Judging(question) => match read {
                Ok(position) => self.compare(question, position, rest, world),
                Err(error) => self.refuse(&rest, &error, world),
            },
            Stage::CatchUp(found, catch_up) => match catch_up.read(read) {
                Ok(CaughtUp::Again(_)) => State::Opening(rest.in_stage(Stage::CatchUp(found, catch_up))),
                Ok(CaughtUp::Without(_) | CaughtUp::Read(None)) => self.begin_stream(*found, rest, world),
                Ok(CaughtUp::Read(Some(position))) => self.catch_up(catch_up, &position, *found, rest, world),
                Err(error) => self.refuse(&rest, &error, world),
            },
        }
    }

    fn compare(
        &mut self,
        question: PositionQuestion,
        position: Option<Position>,
        rest: Rest,
        world: &mut World<'p>,
    ) -> State<'p> {
        let (known, forgotten) = (self.memory.known(), CapturedTables::default());
        let captured = match world.bug {
            Some(Bug::ForgetsIdentities) => &forgotten,
            _ => &self.memory.captured,
        };
        self.causes.touched |= world.server.is_touched();
        let (slot, has_position) = (question.slot(), position.is_some());
        let grounds = self.grounds(&rest.site, known.as_ref(), captured, world);
        let wal_end = Some(world.server.told_end()).filter(|_| !world.server.dropped);
        let next = question.answered(position, wal_end, grounds, world.now()).and_then(|compared| {
            if let (Some(positions), Some(accept)) = (&self.positions, self.accept) {
                positions.use_up(accept);
            }
            self.check_history(slot, has_position, world);
            compared.next(grounds)
        });
        match next {
            Ok(judging) => self.judge(judging, rest, world),
            Err(error) => self.refuse(&rest, &error, world),
        }
    }

    fn catch_up(
        &mut self,
        catch_up: CatchUp,
        position: &Position,
        found: Found,
        rest: Rest,
        world: &mut World<'p>,
    ) -> State<'p> {
        let known = self.memory.known();
        let at = Some((Lsn::new(world.server.confirmed), world.server.told_end()));
        let slot = FoundSlot { origin: &rest.site.origin, database: DATABASE_OID, at, stored: None };
        let comparison = self.comparison(world, known.as_ref(), &self.memory.captured);
        match catch_up.learn(position, slot, &comparison) {
            Ok(_) => self.begin_stream(found, rest, world),
            Err(error) => self.refuse(&rest, &error, world),
        }
    }

    /// Checks L11: where the history of a position is gone, and the WAL ends before it, no relay begins
    /// unless it is commanded to.
    fn check_history(&self, slot: Option<Lsn>, has_position: bool, world: &World<'p>) {
        let server = &world.server;
        let truth = &mut world.kafka.borrow_mut().truth;
        let Some(kept) = truth.position.clone().filter(|_| has_position) else { return };
        let is_gone =
            kept.history < server.went_back && kept.timeline == server.timeline && kept.lsn > server.wal.end;
        if is_gone && self.accept != slot && self.accept != Some(Lsn::new(kept.lsn)) {
            let (process, lsn) = (self.number, kept.lsn);
            truth.violate(format!(
                "L11: process {process} begins, and the WAL ends before the position {lsn}"
            ));
        }
    }

    fn refuse(&mut self, rest: &Rest, error: &Error, world: &mut World<'p>) -> State<'p> {
        if let Some(wire) = &rest.wire {
            wire.borrow_mut().closed = true;
        }
        self.endure(error, Step::Opening, world)
    }

    /// Returns the position, once it is read.
    fn read_position(&mut self, world: &mut World<'p>) -> Option<Result<Option<Position>, Error>> {
        let Some(positions) = &self.positions else { return Some(Ok(None)) };
        let mut kafka = world.kafka.borrow_mut();
        let read = kafka.positions.as_ref()?.read(&mut world.rng, world.clients_break)?;
        if let (Ok(_), Some(kept)) = (&read, kafka.truth.position.clone()) {
            self.causes.other_history |= kept.history < world.server.went_back;
            kafka.truth.identities.know(self.number, kept.tables);
        }
        Some(match (read, world.bug) {
            (Ok(values), Some(Bug::BelievesLastPosition)) => {
                positions.learn(values.last().map(std::slice::from_ref).unwrap_or_default())
            }
            (Ok(values), Some(Bug::AcceptsTwice)) => {
                positions.learn(&values.iter().map(not_accepted).collect::<Vec<_>>())
            }
            (Ok(values), _) => positions.learn(&values),
            (Err(error), _) => positions.go_without(error.into()).map(|()| None),
        })
    }

    fn comparison<'c>(
        &self,
        world: &'c World<'p>,
        known: Option<&'c Known>,
        captured: &'c CapturedTables,
    ) -> Comparison<'c> {
        Comparison {
            slot: &world.bench.slot,
            mode: MODE,
            database: DATABASE,
            tables: self.capture(world).filter,
            accept: self.accept,
            trusts_slot: false,
            known,
            snapshot_after: None,
            has_changes: false,
            has_whole_snapshots: true,
            saw_slot: self.memory.saw_slot,
            captured,
        }
    }

    fn grounds<'c>(
        &self,
        site: &'c Site,
        known: Option<&'c Known>,
        captured: &'c CapturedTables,
        world: &'c World<'p>,
    ) -> Grounds<'c> {
        let stores_positions = self.positions.as_ref().is_some_and(Positions::is_on);
        Grounds { comparison: self.comparison(world, known, captured), site, stores_positions }
    }

    /// Carries out the action on the slot.
    fn prepare(&mut self, judged: Result<Judged, Error>, rest: Rest, world: &mut World<'p>) -> State<'p> {
        let known = self.memory.known();
        let comparison = self.comparison(world, known.as_ref(), &self.memory.captured);
        match Preparation::of(judged, &comparison, false) {
            Ok(Preparation::Continue(found)) => self.start(NeedsStream::new(found), rest, world),
            Ok(Preparation::Create { .. }) => self.make_slot(world),
            Ok(snapshot) => {
                world.kafka.borrow_mut().truth.violate(format!("a start without a snapshot: {snapshot:?}"));
                State::Ended
            }
            Err(error) => self.refuse(&rest, &error, world),
        }
    }

    /// Starts replication. Between the query and the start another client can move the slot.
    fn start(&mut self, needs: NeedsStream, rest: Rest, world: &mut World<'p>) -> State<'p> {
        if rest.crashes < world.server.crashes {
            return State::Connecting;
        }
        let Some(wire) = world.server.connect() else { return State::Connecting };
        let rest = Rest { wire: Some(wire), ..rest };
        let known = self.memory.known();
        let grounds = self.grounds(&rest.site, known.as_ref(), &self.memory.captured, world);
        let confirmed = match world.bug {
            Some(Bug::IgnoresMove) => needs.found().slot.confirmed_flush_lsn,
            _ => Lsn::new(world.server.confirmed),
        };
        match needs.started(confirmed, grounds) {
            Begun::Settled(started) => self.started(started, rest, world),
            Begun::Moved(judging) => {
                self.causes.touched |= world.server.is_touched();
                self.judge(judging, rest, world)
            }
        }
    }

    fn started(&mut self, started: Started, rest: Rest, world: &mut World<'p>) -> State<'p> {
        let forgets = matches!(world.bug, Some(Bug::ForgetsEpochs | Bug::DoesNotCompare));
        match started.catch_up.filter(|_| self.positions.is_some() && !forgets) {
            Some(catch_up) => State::Opening(rest.in_stage(Stage::CatchUp(started.found, catch_up))),
            None => self.begin_stream(*started.found, rest, world),
        }
    }

    /// Begins the session, which with exactly-once takes over before the first row.
    fn begin_stream(&mut self, found: Found, rest: Rest, world: &mut World<'p>) -> State<'p> {
        let Rest { site: Site { origin, .. }, wire: Some(wire), .. } = rest else { return State::Connecting };
        self.excuse_what_nobody_can_know(world);
        let known = self.memory.captured.list();
        let mut kafka = world.kafka.borrow_mut();
        kafka.truth.identities.know(self.number, known.iter().map(CapturedTable::oid));
        kafka.truth.connected(self.number, world.server.confirmed);
        kafka.truth.confirmed(world.server.confirmed);
        if let Some(positions) = &mut kafka.positions {
            positions.begin(self.number, world.server.went_back);
        }
        drop(kafka);
        self.streams_after = world.server.went_back;
        let takeover = Takeover::new(wire, origin, found.stored, world);
        Takeover::skip(world);
        if world.bench.options.guarantee != Guarantee::ExactlyOnce {
            return self.open(takeover, None, world);
        }
        let reuses = world.bug == Some(Bug::ReusesProducer) && self.known.is_some();
        if !reuses || world.kafka.borrow().clients[self.clients[0]].is_fatal() {
            self.known = None;
            self.renew(world);
        }
        State::TakingOver(Box::new(takeover))
    }

    /// Creates a slot with what an operator has accepted before, and only so. The value of a slot and that of
    /// the position behind it may be the same; it counts once.
    fn make_slot(&self, world: &mut World<'p>) -> State<'p> {
        let World { server, kafka, .. } = world;
        let truth = &mut kafka.borrow_mut().truth;
        let is_used = |accept| truth.position.as_ref().is_some_and(|kept| kept.accepted.contains(&accept));
        if self.accept.is_none_or(is_used) {
            let text = format!("L11: process {} makes a slot although there was one", self.number);
            truth.violate(text);
        }
        if server.dropped {
            server.make_slot();
            truth.give_up_before(server.confirmed);
        }
        State::Connecting
    }

    /// Excuses what no relay can know: where the history was lost, its LSNs do not show where the slot was
    /// moved since.
    fn excuse_what_nobody_can_know(&self, world: &World<'p>) {
        let server = &world.server;
        if !server.is_touched() {
            return;
        }
        let truth = &mut world.kafka.borrow_mut().truth;
        let kept = truth.position.as_ref().map(|kept| (kept.timeline, kept.history, kept.lsn));
        let known = self.memory.known().filter(|known| !known.shared);
        let known =
            known.map(|Known { origin: Origin { timeline: TimelineId(timeline), .. }, to, .. }| {
                (timeline, self.streams_after, to.get())
            });
        let offset = world.offset.as_ref().map(|offset| (0, 0, offset.furthest().get()));
        let lost = server.timeline > 1 || server.went_back > 0;
        let hides = |(timeline, history, lsn): (u32, usize, u64)| {
            !server.is_of_today(timeline, history) && lsn >= server.confirmed
        };
        if lost && [known.or(kept), offset].into_iter().flatten().any(hides) {
            truth.give_up_before(server.confirmed);
        }
    }
}

/// Returns up to where transactions may be in Kafka.
fn last_state(world: &World<'_>) -> Option<Lsn> {
    let kafka = world.kafka.borrow();
    let state = kafka.cluster.coordinator.as_ref().and_then(Coordinator::state)?;
    Some(KafkaState::parse(state.as_bytes()).unwrap().place.furthest())
}

/// Returns a position without its accepted values.
fn not_accepted(value: &Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut json: serde_json::Value = serde_json::from_slice(value.as_ref()?).unwrap();
    json.as_object_mut().unwrap().remove("accepted");
    Some(serde_json::to_vec(&json).unwrap())
}
