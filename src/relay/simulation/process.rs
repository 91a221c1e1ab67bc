//! A relay's process: the supervisor's decisions, with the same memory from one session to the next.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::bug::Bug;
use super::kafka::client::Client;
use super::kafka::pipe::{Pipe, Shadow};
use super::kafka::positions::ModelLog;
use super::postgres::catalog::CapturedBy;
use super::rows::table;
use super::session::{Session, Start};
use super::start::capture::Capture;
use super::start::opening::{DATABASE, DATABASE_OID, Opening};
use super::start::refusal::Causes;
use super::start::takeover::Takeover;
use super::world::World;
use crate::error::chain;
use crate::kafka::Deliveries;
use crate::relay::delivery::exactly_once::{Batch, Known, Urgency};
use crate::relay::delivery::flight::Flight;
use crate::relay::delivery::repeats::RepeatRange;
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Control, Target, TargetReceiver};
use crate::relay::lifecycle::memory::Memory;
use crate::relay::lifecycle::order::{
    AfterStream, Between, Ended, Inherited, Settling, Streamed, begin_feed,
};
use crate::relay::pipeline::core::{Ending, Limits};
use crate::relay::pipeline::feed::Feed;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::progress::position::Position;
use crate::relay::progress::position_store::{PositionWriter, Positions};
use crate::transaction::History;
use crate::wal::{Lsn, PgTimestamp};

/// Longest waits of a drain for the cause of a failure, and then for the rest.
const LIMITS: Limits = Limits { cause: Duration::from_millis(400), rest: Some(Duration::from_millis(400)) };

pub(super) struct Process<'p> {
    pub(super) number: usize,
    /// Number of times that the server had gone back when it began, and when its stream did.
    pub(super) went_back: usize,
    pub(super) streams_after: usize,
    pub(super) clients: [usize; 2],
    deliveries: Deliveries,
    shadow: Rc<RefCell<Shadow>>,
    pub(super) memory: Memory,
    state: State<'p>,
    /// Memory from which the planted bug continues.
    pub(super) known: Option<Known>,
    /// True if it stands still, and receives nothing.
    pub(super) frozen: bool,
    /// Sender of its commands.
    pub(super) control: Control,
    pub(super) target: TargetReceiver,
    /// Storage of its position, if it has one.
    pub(super) positions: Option<Positions<ModelLog>>,
    /// `outboxd.position.accept`
    pub(super) accept: Option<Lsn>,
    /// Reasons for which its start may refuse.
    pub(super) causes: Causes,
}

pub(super) enum State<'p> {
    Connecting,
    Paused,
    Opening(Opening),
    TakingOver(Box<Takeover>),
    Streaming(Box<Session<'p>>),
    Draining(Box<Session<'p>>, Error, Ending),
    Settling(Box<Session<'p>>, Settling),
    Ended,
}

impl<'p> Process<'p> {
    pub(super) fn new(number: usize, world: &World<'p>) -> Self {
        let (deliveries, control) = (Deliveries::default(), Control::default());
        let target = control.receiver();
        Self {
            number,
            went_back: world.server.went_back,
            streams_after: 0,
            clients: clients(world, &deliveries),
            deliveries,
            shadow: Rc::default(),
            memory: Memory::default(),
            state: State::Connecting,
            known: None,
            frozen: false,
            control,
            target,
            positions: positions(number, world),
            accept: world.accept,
            causes: Causes::default(),
        }
    }

    pub(super) fn describe(&self) -> String {
        match &self.state {
            State::Connecting => "connecting".to_owned(),
            State::Paused => "paused".to_owned(),
            State::Opening(opening) => format!("opening {opening:?}"),
            State::TakingOver(takeover) => format!("taking over {takeover:?}"),
            State::Streaming(session) => format!("streaming {}", session.describe()),
            State::Draining(session, error, _) => {
                format!("draining {} {}", chain(error), session.describe())
            }
            State::Settling(session, settling) => {
                let error = settling.failure().map(|error| chain(error)).unwrap_or_default();
                format!("settling {error} {}", session.describe())
            }
            State::Ended => "ended".to_owned(),
        }
    }

    pub(super) const fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(super) const fn is_paused(&self) -> bool {
        matches!(self.state, State::Paused)
    }

    /// Returns whether another is needed for anything to happen.
    pub(super) const fn is_away(&self) -> bool {
        self.frozen || self.is_paused()
    }

    /// Returns whether it knows that Kafka has a position.
    pub(super) fn knows_position(&self) -> bool {
        self.positions.as_ref().is_some_and(Positions::is_compared)
    }

    pub(super) const fn clients(&self) -> [usize; 2] {
        self.clients
    }

    pub(super) fn forget_topics(&mut self, now: Instant) {
        if let State::Streaming(session) = &mut self.state {
            session.forget_topics(now);
        }
    }

    /// Ends it with all of its memory.
    pub(super) fn crash(&mut self, world: &mut World<'p>) {
        let wire = match &self.state {
            State::TakingOver(takeover) => Some(&takeover.wire),
            State::Streaming(session) | State::Draining(session, ..) => Some(&session.wire),
            State::Opening(opening) => opening.wire.as_ref(),
            State::Connecting | State::Paused | State::Settling(..) | State::Ended => None,
        };
        if let Some(wire) = wire {
            let mut wire = wire.borrow_mut();
            // What was sent may arrive.
            if world.rng.bool() {
                wire.updates.clear();
            }
            wire.closed = true;
        }
        self.end(world);
    }

    pub(super) fn step(&mut self, world: &mut World<'p>) {
        self.state = match mem::replace(&mut self.state, State::Ended) {
            State::Connecting | State::Paused => self.begin(world),
            State::Opening(opening) => self.wait(opening, world),
            State::TakingOver(takeover) => self.take_over(takeover, world),
            State::Streaming(session) => self.stream(session, world),
            State::Draining(session, error, ending) => self.drain(session, error, ending, world),
            State::Settling(session, settling) => self.settle(session, settling, world),
            State::Ended => State::Ended,
        };
        if self.has_ended() {
            self.end(world);
        }
    }

    fn end(&mut self, world: &World<'p>) {
        self.state = State::Ended;
        let mut kafka = world.kafka.borrow_mut();
        self.clients.iter().for_each(|client| kafka.clients[*client].die());
        if let Some(positions) = &mut kafka.positions {
            positions.die(self.number);
        }
    }

    fn begin(&mut self, world: &mut World<'p>) -> State<'p> {
        self.target.begin();
        match Between::of(self.target.get(), &mut self.memory) {
            Between::End => State::Ended,
            Between::Pause => State::Paused,
            Between::Open => self.connect(world),
        }
    }

    pub(super) fn capture(&self, world: &World<'p>) -> Capture<'p> {
        let filter = match world.server.wal.captured_by {
            CapturedBy::List => &world.bench.filters[0],
            CapturedBy::Columns => &world.bench.filters[1],
        };
        Capture { bench: world.bench, filter, known: self.memory.captured.clone(), bug: world.bug }
    }

    fn take_over(&mut self, mut takeover: Box<Takeover>, world: &mut World<'p>) -> State<'p> {
        if takeover.wire.borrow().closed {
            return State::Connecting;
        }
        match takeover.step(world, self.clients[0], &self.deliveries, self.known) {
            None => State::TakingOver(takeover),
            Some((batch, known)) => {
                self.known = Some(known);
                self.open(*takeover, Some(batch), world)
            }
        }
    }

    pub(super) fn open(
        &mut self,
        takeover: Takeover,
        batch: Option<Batch>,
        world: &mut World<'p>,
    ) -> State<'p> {
        let Takeover { wire, origin, confirmed, stored, now, .. } = takeover;
        let end = Lsn::new(world.server.wal.end);
        let before = self.memory.acknowledged.as_ref().filter(|(known, _)| *known == origin);
        if before.is_some_and(|(_, acknowledged)| confirmed > acknowledged.to) {
            world.kafka.borrow_mut().truth.passed_on(self.number, confirmed.get());
        }
        let streamed = Streamed {
            origin: &origin,
            confirmed,
            wal_end: end,
            clock: now,
            stored: stored.as_ref(),
            follows_end: false,
        };
        let Inherited { mut acknowledged, stored, .. } = Inherited::of(streamed, &mut self.memory);
        if world.bug == Some(Bug::OldHistoryCounts)
            && let Some((_, before)) = &self.memory.acknowledged
        {
            acknowledged.to = before.to;
        }
        if world.bug == Some(Bug::OldHistoryCounts) {
            acknowledged.history = History::new(PgTimestamp(i64::MAX));
        }
        let believed = acknowledged.to;
        if matches!(world.bug, Some(Bug::ForgetsSessions | Bug::BelievesLsns)) {
            acknowledged = Acknowledged::nothing(now);
        }
        self.shadow = Rc::default();
        let bench = world.bench;
        let pipe = Pipe {
            kafka: Rc::clone(&world.kafka),
            process: self.number,
            clients: self.clients,
            deliveries: self.deliveries.clone(),
            shadow: Rc::clone(&self.shadow),
            bug: world.bug,
            late_state: RefCell::default(),
        };
        let flight = Flight::new(pipe, bench.options.window(), false, &bench.metrics, confirmed);
        let system_id = origin.system_id.clone();
        let messages = bench.messages.as_ref();
        let mut feed =
            Feed::with_flight(flight, &bench.metrics, messages, None, &bench.options, acknowledged, stored);
        feed.records_of = table::records_of;
        let repeat_range = RepeatRange { system_id, from: confirmed, to: end, quiet_at: None };
        begin_feed(&mut feed, batch, &bench.options, repeat_range);
        let counts = world.kafka.borrow().cluster.counts;
        let (capture, shadow, bug) = (self.capture(world), Rc::clone(&self.shadow), world.bug);
        let (kafka, process) = (Rc::clone(&world.kafka), self.number);
        let position =
            Position::at(confirmed, &origin, DATABASE, DATABASE_OID, world.bench.slot.name.as_str());
        let position = PositionWriter::new(self.positions.clone(), position, self.memory.captured.clone());
        let patience = bench.options.shutdown_timeout;
        let start = Start {
            feed,
            origin,
            confirmed,
            believed,
            wire,
            capture,
            counts,
            shadow,
            bug,
            kafka,
            process,
            position,
            patience,
        };
        State::Streaming(Box::new(Session::new(start, world.now())))
    }

    fn stream(&mut self, mut session: Box<Session<'p>>, world: &mut World<'p>) -> State<'p> {
        let now = world.now();
        if world.bug == Some(Bug::PauseForgets) && self.target.get() == Target::Pause {
            session.wire.borrow_mut().closed = true;
            return State::Connecting;
        }
        let turn = session.turn(&mut world.rng, now, self.target.wanted(), &world.server.wal);
        if let Ok(false) = turn {
            if world.rng.u8(..) < 4 {
                world.offset = session.core.feed.offset(now).or(world.offset.take());
            }
            return State::Streaming(session);
        }
        match AfterStream::of(turn.map(|_| ())) {
            AfterStream::Finish => self.end_stream(session, world),
            AfterStream::Drain(error) if world.bug == Some(Bug::HangsUpAtOnce) => {
                self.hang_up_at_once(session, Ended::Failed(error), world)
            }
            AfterStream::Drain(error) => {
                let ending = Ending::new(Some(&error), &session.core, Urgency::Now, LIMITS, now);
                State::Draining(session, error, ending)
            }
            AfterStream::HangUp(ended) => self.hang_up_at_once(session, ended, world),
        }
    }

    pub(super) fn renew(&mut self, world: &World<'p>) {
        let mut kafka = world.kafka.borrow_mut();
        self.clients.iter().for_each(|client| kafka.clients[*client].die());
        drop(kafka);
        self.deliveries.discard_reports();
        self.clients = clients(world, &self.deliveries);
    }
}

/// Returns the storage of a process's position, in runs in which there is one.
fn positions(number: usize, world: &World<'_>) -> Option<Positions<ModelLog>> {
    world.kafka.borrow().positions.as_ref()?;
    Some(Positions::in_log(ModelLog { kafka: Rc::clone(&world.kafka), process: number }, "key"))
}

fn clients(world: &World<'_>, deliveries: &Deliveries) -> [usize; 2] {
    let mut kafka = world.kafka.borrow_mut();
    [(), ()].map(|()| {
        let number = kafka.clients.len();
        kafka.clients.push(Client::new(number as u64, world.bug, deliveries.clone()));
        number
    })
}
