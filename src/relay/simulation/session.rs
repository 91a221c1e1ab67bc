//! A session of the simulation: the relay's own core, between a stream without a socket and the model of Kafka.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::bug::Bug;
use super::kafka::pipe::{Kafka, Pipe, Shadow};
use super::kafka::positions::ModelLog;
use super::postgres::catalog::Catalog;
use super::postgres::server::Wire;
use super::postgres::wal::Wal;
use super::rows::table;
use super::start::capture::Capture;
use super::start::tails;
use crate::kafka::Transport;
use crate::pgoutput::{self, Message, Relation};
use crate::postgres::{self, ReplicationStream};
use crate::relay::capture::captured::CapturedTable;
use crate::relay::capture::table::Table;
use crate::relay::delivery::needs::{Answer, Need};
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::pipeline::core;
use crate::relay::pipeline::core::{Core, Draining, Ending, Event, Reading, Source, Taken, Then, Wanted};
use crate::relay::pipeline::feed::Feed;
use crate::relay::progress::position::DuePosition;
use crate::relay::progress::position_store::PositionWriter;
use crate::relay::time::clock::Now;
use crate::replication::{Feedback, ReplicationMessage, StandbyStatusUpdate, XLogData};
use crate::wal::{Lsn, Oid};
use crate::wire::READ_BYTES;

const MESSAGE_BYTES_MAX: usize = 1 << 16;
const STATUS_INTERVAL: Duration = Duration::from_millis(300);

/// Most consecutive turns that may ask for the next one at once, and do nothing else.
const SPINS_MAX: u32 = 3;

/// Number of turns of 256 at which the guard of the publication polls the catalog.
const LOOKS: u8 = 6;

pub(super) struct Session<'p> {
    pub(super) core: Core<'p, Pipe>,
    pub(super) origin: Origin,
    pub(super) confirmed: Lsn,
    pub(super) wire: Rc<RefCell<Wire>>,
    position: PositionWriter<ModelLog>,
    source: Tampered,
    capture: Capture<'p>,
    counts: [i32; 2],
    /// Need of the core.
    need: Option<Need>,
    event: Event,
    bug: Option<Bug>,
    kafka: Rc<RefCell<Kafka>>,
    process: usize,
    shadow: Rc<RefCell<Shadow>>,
    /// First descriptions of the tables.
    described: HashMap<Oid, Relation>,
    /// Number of consecutive turns that had nothing to do and asked for the next one at once.
    spins: u32,
    /// Since when nothing more is read.
    off_since: Option<Instant>,
}

/// The stream, with the planted bugs that are about what is read.
struct Tampered {
    stream: ReplicationStream,
    bug: Option<Bug>,
    shadow: Rc<RefCell<Shadow>>,
    last_row: Option<Lsn>,
    last_keepalive: Option<Lsn>,
    /// LSN that a planted bug believes was sent, and the commit of the open transaction.
    believed: Lsn,
    commit_lsn: Lsn,
}

/// Inputs of a session.
pub(super) struct Start<'p> {
    pub(super) feed: Feed<'p, Pipe>,
    pub(super) origin: Origin,
    pub(super) confirmed: Lsn,
    /// LSN before which everything counts as acknowledged.
    pub(super) believed: Lsn,
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) capture: Capture<'p>,
    pub(super) counts: [i32; 2],
    pub(super) shadow: Rc<RefCell<Shadow>>,
    pub(super) bug: Option<Bug>,
    pub(super) kafka: Rc<RefCell<Kafka>>,
    pub(super) process: usize,
    pub(super) position: PositionWriter<ModelLog>,
    /// Longest time that the end may take.
    pub(super) patience: Duration,
}

impl<'p> Session<'p> {
    pub(super) fn new(start: Start<'p>, now: Now) -> Self {
        let Start { feed, origin, confirmed, believed, wire, capture, counts, .. } = start;
        let Start { shadow, bug, kafka, process, mut position, patience, .. } = start;
        let feedback = Feedback::new(STATUS_INTERVAL, confirmed, now.instant);
        let source = Tampered {
            stream: ReplicationStream::offline(MESSAGE_BYTES_MAX),
            bug,
            shadow: Rc::clone(&shadow),
            last_row: None,
            last_keepalive: None,
            believed,
            commit_lsn: Lsn::ZERO,
        };
        let mut core = Core::new(feed, feedback, None, now);
        core.positions = position.begin(patience);
        Self {
            core,
            position,
            origin,
            confirmed,
            wire,
            source,
            capture,
            counts,
            need: None,
            event: Event::None,
            bug,
            kafka,
            process,
            shadow,
            described: HashMap::new(),
            spins: 0,
            off_since: None,
        }
    }

    /// Runs a turn of the core, and what happens until the next. Returns true when it had to drain and has.
    pub(super) fn turn(&mut self, rng: &mut Rng, now: Now, wanted: Wanted, wal: &Wal) -> Result<bool, Error> {
        if rng.u8(..) < LOOKS && !self.wire.borrow().closed {
            self.capture.look(wal.publication(), &wal.catalog)?;
            self.know();
        }
        self.collect();
        let turn = self.core.turn(now, mem::take(&mut self.event), wanted, &mut self.source)?;
        self.confirm_wrongly();
        if let Then::Wait { until, .. } = turn.then {
            self.waits(until, turn.update.is_none() && turn.need.is_none() && turn.store.is_none(), now);
        }
        self.ends_at_once(self.core.reading() == Reading::Off && turn.then != Then::Ended);
        self.store(turn.store);
        self.need = turn.need.or(self.need.take());
        self.send(turn.update)?;
        let does_not_drain = self.bug == Some(Bug::DoesNotDrain) && self.core.reading() == Reading::Off;
        match turn.then {
            _ if does_not_drain => return Ok(true),
            Then::Ended => return Ok(true),
            Then::Wait { answers: true, .. } => self.answer(rng, &wal.catalog),
            Then::Wait { reads: true, .. } => self.read(rng)?,
            Then::Wait { .. } => {}
        }
        Ok(false)
    }

    /// Runs a turn of the ending after a failure.
    pub(super) fn drain(&mut self, ending: &mut Ending, now: Now) -> Result<Draining, Error> {
        self.collect();
        let drain = ending.turn(&mut self.core, now)?;
        self.ends_at_once(drain.then == Draining::Wait);
        let is_idle = drain.update.is_none() && drain.store.is_none();
        self.store(drain.store);
        if drain.then == Draining::Wait {
            let until = ending.wake_at(&self.core, now);
            self.waits(until, is_idle, now);
        }
        self.send(drain.update)?;
        Ok(drain.then)
    }

    fn collect(&mut self) {
        self.position.collect(&mut self.core.positions);
        if self.bug == Some(Bug::GoesOnWithoutRight)
            && self.kafka.borrow().positions.as_ref().is_some_and(|positions| !positions.is_writable())
        {
            self.core.positions.switch_off();
        }
    }

    fn store(&mut self, due: Option<DuePosition>) {
        let Some(due) = due else { return };
        self.position.write(due, &mut self.core.positions);
        if self.bug == Some(Bug::ConfirmsBeforeKept) {
            self.core.positions.acknowledged();
        }
    }

    /// Checks L10: a turn that has nothing to do waits for a moment in the future.
    fn waits(&mut self, until: Instant, is_idle: bool, now: Now) {
        if self.core.reading() == Reading::Off {
            self.off_since.get_or_insert(now.instant);
        }
        let until = match self.off_since.filter(|_| self.bug == Some(Bug::WaitsForThePast)) {
            Some(since) => until.min(since + STATUS_INTERVAL),
            None => until,
        };
        self.spins = if is_idle && until <= now.instant { self.spins + 1 } else { 0 };
        if self.spins > SPINS_MAX {
            let text = format!("L10: process {} waits for a moment that is over", self.process);
            self.kafka.borrow_mut().truth.violate(text);
        }
    }

    /// Checks L10: a session that ends, and whose records are acknowledged, waits for Kafka only.
    fn ends_at_once(&self, waits: bool) {
        let flight = &self.core.feed.out.flight;
        if waits && flight.is_settled() && self.core.positions.rests(flight.frontier()) {
            let text = format!("L10: process {} has drained, and its last position waits", self.process);
            self.kafka.borrow_mut().truth.violate(text);
        }
    }

    /// Describes itself for the report of a seed that does not come to an end.
    pub(super) fn describe(&self) -> String {
        let (flight, wire) = (&self.core.feed.out.flight, self.wire.borrow());
        format!(
            "({:?}, {} in flight, frontier {}, awaiting {:?}, {} bytes on the wire, closed: {})",
            self.core.reading(),
            flight.window().records(),
            flight.frontier(),
            self.need,
            wire.bytes.len(),
            wire.closed,
        )
    }

    pub(super) fn forget_topics(&mut self, now: Instant) {
        self.core.feed.forget_old(now + Duration::from_secs(100_000));
    }

    fn read(&mut self, rng: &mut Rng) -> Result<(), Error> {
        let mut wire = self.wire.borrow_mut();
        if wire.bytes.is_empty() {
            return if wire.closed { Err(broken()) } else { Ok(()) };
        }
        let length = rng.usize(1..=wire.bytes.len());
        self.source.stream.feed(&wire.bytes[..length]);
        wire.bytes.drain(..length);
        // Now and then the server has much more.
        self.event = Event::Read(if rng.u8(..) < 100 { READ_BYTES } else { length });
        Ok(())
    }

    fn answer(&mut self, rng: &mut Rng, catalog: &Catalog) {
        let Some(need) = self.need.take() else { return };
        match self.answer_to(&need, rng, catalog) {
            Some(answer) => self.event = Event::Answer(answer),
            None => self.need = Some(need),
        }
    }

    /// Returns the answer, if it has arrived.
    fn answer_to(&mut self, need: &Need, rng: &mut Rng, catalog: &Catalog) -> Option<Result<Answer, Error>> {
        let answer = match need {
            // The server that has written the stream answers no more.
            Need::Table { .. } if self.wire.borrow().closed => return Some(Err(broken())),
            Need::Table { relation, .. } => {
                let first = self.described.entry(relation.oid).or_insert_with(|| (**relation).clone());
                let stale = self.bug == Some(Bug::StaleRelation);
                let table = self.capture.resolve(if stale { first } else { relation }, catalog);
                self.know();
                if let Ok(Table::NotCaptured(_)) = table {
                    let root = catalog.get(relation.oid).and_then(|table| table.root);
                    let identities = &mut self.kafka.borrow_mut().truth.identities;
                    identities.leave_out(self.process, relation.oid, root);
                }
                return Some(table.map(|table| Answer::Table { relation: relation.oid, table }));
            }
            Need::Topic(name) => rng.bool().then(|| {
                let number = table::EVENTS_TOPICS.iter().position(|topic| topic == name);
                let known = number.filter(|_| self.bug != Some(Bug::FirstHasCompany));
                let partitions = known.map_or(0, |number| usize::try_from(self.counts[number]).unwrap());
                Answer::Topic { name: name.clone(), partitions }
            }),
            Need::Tail(question) => rng.bool().then(|| {
                let mut kafka = self.kafka.borrow_mut();
                Answer::Tail(tails::read(&mut kafka, self.process, question, self.bug, rng))
            }),
            Need::Schema(_) | Need::Values { .. } | Need::QueueEmpty | Need::Rows => None,
        };
        answer.map(Ok)
    }

    /// Records the captured tables, whose rows must be sent.
    fn know(&self) {
        let known = self.capture.known.list();
        let identities = &mut self.kafka.borrow_mut().truth.identities;
        identities.know(self.process, known.iter().map(CapturedTable::oid));
    }

    /// Applies the planted bugs that concern what is confirmed.
    fn confirm_wrongly(&mut self) {
        let frontier = self.core.feed.out.flight.frontier();
        let wrong = match self.bug {
            Some(Bug::ConfirmsTheLatest) => self.shadow.borrow().latest(),
            Some(Bug::ConfirmsTheNext) if frontier > self.confirmed => self.shadow.borrow().behind(frontier),
            Some(Bug::ConfirmsOnReceive) => Some(self.core.feedback.last_received()),
            Some(Bug::ConfirmsKeepalives) => self.source.last_keepalive.take(),
            _ => None,
        };
        if let Some(lsn) = wrong {
            self.core.feedback.flushed(lsn);
        }
    }

    fn send(&self, update: Option<StandbyStatusUpdate>) -> Result<(), Error> {
        let Some(update) = update else { return Ok(()) };
        let mut wire = self.wire.borrow_mut();
        if wire.closed {
            return Err(broken());
        }
        wire.updates.push(update.flushed.get());
        Ok(())
    }
}

impl Source for Tampered {
    fn take_next<T: Transport>(
        &mut self,
        feed: &mut Feed<'_, T>,
        feedback: &mut Feedback,
        now: Now,
    ) -> Result<Option<Taken>, Error> {
        loop {
            let message = match self.stream.buffered() {
                Ok(None) => return Ok(None),
                Ok(Some(message)) => message,
                Err(postgres::Error::Precondition { .. } | postgres::Error::Unpublished { .. })
                    if self.bug == Some(Bug::IgnoresNotice) =>
                {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match &message {
                ReplicationMessage::PrimaryKeepalive(keepalive) => {
                    self.last_keepalive = Some(keepalive.wal_end);
                }
                ReplicationMessage::XLogData(data) if is_skipped(self.bug, &mut self.last_row, data) => {
                    continue;
                }
                ReplicationMessage::XLogData(data)
                    if self.bug == Some(Bug::BelievesLsns)
                        && lies_before(self.believed, &mut self.commit_lsn, data) =>
                {
                    continue;
                }
                ReplicationMessage::XLogData(data) => {
                    if let Ok(Message::Commit(commit)) = pgoutput::decode(data.data) {
                        self.shadow.borrow_mut().committed(commit.end_lsn);
                    }
                }
            }
            return core::take(feed, feedback, message, now).map(Some);
        }
    }
}

/// Returns whether a planted bug mistakes a row for a repeat.
fn is_skipped(bug: Option<Bug>, last_row: &mut Option<Lsn>, data: &XLogData<'_>) -> bool {
    match data.data.first() {
        Some(b'D') => return bug == Some(Bug::PassesDeletes),
        Some(b'I') => {}
        _ => return false,
    }
    let before = last_row.replace(data.wal_start);
    match bug {
        Some(Bug::RowLsnIsIdentity) => before.is_some_and(|before| data.wal_start <= before),
        Some(Bug::SkipsFirstRow) => before.is_none(),
        _ => false,
    }
}

/// Returns whether a planted bug mistakes an event for acknowledged: its transaction commits before this.
fn lies_before(lsn: Lsn, commit_lsn: &mut Lsn, data: &XLogData<'_>) -> bool {
    match pgoutput::decode(data.data).unwrap() {
        Message::Begin(begin) => *commit_lsn = begin.final_lsn,
        Message::Insert { .. } => return *commit_lsn < lsn,
        Message::LogicalMessage(message) if message.transactional => return *commit_lsn < lsn,
        Message::LogicalMessage(message) => return message.lsn <= lsn,
        _ => {}
    }
    false
}

pub(super) fn broken() -> Error {
    let source = std::io::ErrorKind::ConnectionReset.into();
    postgres::Error::Broken { doing: "streaming", source }.into()
}
