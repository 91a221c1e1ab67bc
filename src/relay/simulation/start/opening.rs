//! Steps of a relay up to its stream: as in `Opening::open`, with the product's own judgement of the slot and
//! the position.

use std::cell::RefCell;
use std::rc::Rc;

use super::takeover::Takeover;
use crate::error::{Class, Diagnose as _};
use crate::postgres::SnapshotMode;
use crate::relay::capture::captured::{CapturedTable, CapturedTables};
use crate::relay::error::Error;
use crate::relay::lifecycle::retry::Step;
use crate::relay::options::Guarantee;
use crate::relay::origin::Origin;
use crate::relay::progress::comparison::{Comparison, FoundSlot, Known};
use crate::relay::progress::position::Position;
use crate::relay::simulation::bug::Bug;
use crate::relay::simulation::postgres::server::Wire;
use crate::relay::simulation::postgres::slot::SlotLook;
use crate::relay::simulation::process::{Process, State};
use crate::relay::simulation::world::World;
use crate::wal::{Lsn, Oid, TimelineId};

pub(in crate::relay::simulation) const DATABASE: &str = "shop";
pub(in crate::relay::simulation) const DATABASE_OID: Oid = Oid(5);

/// A start that has seen that the slot is free, or missing.
#[derive(Debug)]
pub(in crate::relay::simulation) struct Opening {
    origin: Origin,
    slot: Option<Lsn>,
    /// The stream, when it has started, and the slot was somewhere else before.
    pub(in crate::relay::simulation) wire: Option<Rc<RefCell<Wire>>>,
    /// Purpose of reading the position.
    reads: Reads,
    /// Number of the server's crashes.
    crashes: usize,
}

/// Purpose for which a start reads the position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// To compare the slot with it, before the stream starts.
    ToCompare,
    /// To learn what others have done, when the stream has started.
    Later,
    /// None any more.
    No,
}

/// Reasons for which a relay may refuse, from what has really happened.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::relay::simulation) struct Causes {
    /// The slot is not where relays have left it.
    pub(super) touched: bool,
    /// The history is not that of what is known.
    pub(super) other_history: bool,
}

impl<'p> Process<'p> {
    pub(in crate::relay::simulation) fn connect(&mut self, world: &mut World<'p>) -> State<'p> {
        let (origin, known) = (world.server.origin(), self.memory.known());
        self.causes = Causes {
            touched: world.server.is_touched(),
            other_history: known.is_some() && self.streams_after < world.server.went_back,
        };
        if let Some(Err(error)) = known.as_ref().map(|known| known.check(&origin, world.server.told_end())) {
            return self.endure(&error, Step::Opening, world);
        }
        match self.capture(world).start(&world.server.wal.catalog) {
            Ok(tables) => world.server.wal.publish(&tables, &mut world.kafka.borrow_mut().truth),
            Err(error) => return self.endure(&error, Step::Opening, world),
        }
        let slot = match world.server.look() {
            SlotLook::Active => {
                self.memory.stand_by(true);
                return State::Connecting;
            }
            SlotLook::Missing => None,
            SlotLook::At(lsn) => Some(lsn),
        };
        let comparison = self.comparison(world, known.as_ref(), &self.memory.captured);
        if slot.is_none()
            && let Err(error) = comparison.without_slot()
        {
            return self.endure(&error, Step::Opening, world);
        }
        let crashes = world.server.crashes;
        self.check_place(Opening { origin, slot, wire: None, reads: Reads::No, crashes }, world)
    }

    /// Does the same as `Opening::check_place`.
    fn check_place(&mut self, opening: Opening, world: &mut World<'p>) -> State<'p> {
        let known = self.memory.known();
        let comparison = self.comparison(world, known.as_ref(), &self.memory.captured);
        let compares = opening.slot.is_none() || comparison.needs_position(opening.slot, &opening.origin);
        let reads = match world.bug {
            Some(Bug::DoesNotCompare) => Reads::No,
            _ if compares => Reads::ToCompare,
            Some(Bug::ForgetsEpochs) => Reads::No,
            _ if self.positions.is_some() => Reads::Later,
            _ => Reads::No,
        };
        if reads == Reads::ToCompare {
            return State::Comparing(Opening { reads, ..opening });
        }
        let opening = Opening { reads, ..opening };
        self.start(opening, world)
    }

    pub(in crate::relay::simulation) fn compare(
        &mut self,
        opening: Opening,
        world: &mut World<'p>,
    ) -> State<'p> {
        let reads = opening.reads;
        let Some(read) = self.read_position(world) else { return State::Comparing(opening) };
        // The server is asked again behind the position.
        let is_cut = opening.wire.as_ref().is_some_and(|wire| wire.borrow().closed);
        if is_cut || opening.crashes < world.server.crashes {
            return State::Connecting;
        }
        let position = match read {
            Ok(position) => position,
            // It is asked for again.
            Err(error) if opening.reads == Reads::Later && error.class() == Class::Transient => {
                return State::Comparing(opening);
            }
            Err(error) => return self.refuse(&opening, &error, world),
        };
        let opening = Opening { reads: Reads::No, ..opening };
        if reads == Reads::Later {
            if let Some(position) = &position {
                let captured = &self.memory.captured;
                self.comparison(world, None, captured).recall(position, &opening.origin, DATABASE_OID);
            }
            return self.start(opening, world);
        }
        // One of a history that is gone is refused at start, and the operator removes it.
        let end = Lsn::new(world.server.wal.end);
        world.offset.take_if(|offset| offset.furthest() > end);
        let known = self.memory.known();
        let forgotten = CapturedTables::default();
        let captured = match world.bug {
            Some(Bug::ForgetsIdentities) => &forgotten,
            _ => &self.memory.captured,
        };
        let found = FoundSlot {
            origin: &opening.origin,
            database: DATABASE_OID,
            at: opening.slot.map(|slot| (slot, world.server.told_end())),
            stored: world.offset.as_ref().filter(|_| known.is_none()),
        };
        let comparison = self.comparison(world, known.as_ref(), captured);
        match comparison.with_position(position.as_ref(), found, world.now()) {
            Ok(_) => {
                if let (Some(positions), Some(accept)) = (&self.positions, self.accept) {
                    positions.use_up(accept);
                }
                self.check_history(&opening, position.is_some(), world);
                self.start(opening, world)
            }
            Err(error) => self.refuse(&opening, &error, world),
        }
    }

    /// Checks L11: where the history of a position is gone, and the WAL ends before it, no relay begins
    /// unless it is commanded to.
    fn check_history(&self, opening: &Opening, has_position: bool, world: &World<'p>) {
        let server = &world.server;
        let truth = &mut world.kafka.borrow_mut().truth;
        let Some(kept) = truth.position.clone().filter(|_| has_position) else { return };
        let is_gone =
            kept.history < server.went_back && kept.timeline == server.timeline && kept.lsn > server.wal.end;
        if is_gone && self.accept != opening.slot && self.accept != Some(Lsn::new(kept.lsn)) {
            let (process, lsn) = (self.number, kept.lsn);
            truth.violate(format!(
                "L11: process {process} begins, and the WAL ends before the position {lsn}"
            ));
        }
    }

    fn refuse(&mut self, opening: &Opening, error: &Error, world: &mut World<'p>) -> State<'p> {
        if let Some(wire) = &opening.wire {
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
            mode: SnapshotMode::NoData,
            database: DATABASE,
            tables: self.capture(world).filter,
            accept: self.accept,
            trusts_slot: false,
            known,
            saw_slot: self.memory.saw_slot,
            captured,
        }
    }

    /// Starts replication, and with exactly-once takes over before the first row.
    fn start(&mut self, opening: Opening, world: &mut World<'p>) -> State<'p> {
        let Opening { origin, slot, wire, crashes, reads } = opening;
        if slot.is_none() {
            return self.make_slot(world);
        }
        let wire = match wire {
            Some(wire) => wire,
            None => {
                if crashes < world.server.crashes {
                    return State::Connecting;
                }
                let Some(wire) = world.server.connect() else { return State::Connecting };
                let confirmed = Some(Lsn::new(world.server.confirmed));
                if confirmed > slot {
                    let wire = Some(wire);
                    self.causes.touched |= world.server.is_touched();
                    return self.check_place(
                        Opening { origin, slot: confirmed, wire, reads: Reads::No, crashes },
                        world,
                    );
                }
                wire
            }
        };
        if reads == Reads::Later {
            return State::Comparing(Opening { origin, slot, wire: Some(wire), reads, crashes });
        }
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
        let takeover = Takeover::new(wire, origin, world);
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

/// Returns whether a start refuses the slot or the server that it finds.
pub(in crate::relay::simulation) const fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::OtherHistory { .. } | Error::Postgres(crate::postgres::Error::SlotLost { .. }))
}

impl<'p> Process<'p> {
    /// Returns whether past events explain why a start is refused.
    pub(in crate::relay::simulation) fn is_explained(&self, error: &Error, world: &World<'p>) -> bool {
        match error {
            Error::OtherHistory { .. } => self.causes.other_history,
            // Without a position no relay knows which client has moved the slot.
            _ => {
                let truth = &world.kafka.borrow().truth;
                self.causes.touched || !truth.keeps_positions && truth.identities.streaming != self.number
            }
        }
    }

    /// Sends what is in the table, and accepts the value of the error, as an operator would; a slot that is
    /// gone is created, and its position is accepted.
    pub(in crate::relay::simulation) fn accept(&self, error: &Error, world: &mut World<'p>) {
        let World { server, kafka, accept, rng, .. } = world;
        let truth = &mut kafka.borrow_mut().truth;
        if server.dropped {
            server.make_slot();
        }
        let value = value_in(error).unwrap_or(Lsn::new(server.confirmed));
        let used = truth.position.as_ref().map(|kept| kept.accepted.clone()).unwrap_or_default();
        // Each is believed once, and another slot has another.
        while used.contains(&value) && used.contains(&Lsn::new(server.confirmed)) {
            server.wal.write_noise(rng);
            server.make_slot();
            truth.give_up_before(server.confirmed);
        }
        *accept = Some(if used.contains(&value) { Lsn::new(server.confirmed) } else { value });
        if self.causes.touched {
            truth.give_up_before(server.confirmed);
        }
    }
}

/// Returns the value of `outboxd.position.accept` that the error names for an existing slot.
fn value_in(error: &Error) -> Option<Lsn> {
    let fix = error.fix().filter(|fix| !fix.contains("snapshot.mode=no_data"))?;
    let (_, value) = fix.split_once("outboxd.position.accept=")?;
    let is_of_lsn = |c: char| c.is_ascii_hexdigit() || c == '/';
    value.split(|c| !is_of_lsn(c)).next()?.parse().ok()
}

/// Returns a position without its accepted values.
fn not_accepted(value: &Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut json: serde_json::Value = serde_json::from_slice(value.as_ref()?).unwrap();
    json.as_object_mut().unwrap().remove("accepted");
    Some(serde_json::to_vec(&json).unwrap())
}
