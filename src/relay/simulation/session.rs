//! The session's loop without its sockets: what `relay::session` does in a turn, with the same feed, feedback and intake.

use std::cell::RefCell;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::bug::Bug;
use super::pipe::{Kafka, Pipe, Shadow};
use super::server::Wire;
use super::{table, tails};
use crate::outbox::EventRouter;
use crate::postgres::{self, ReplicationStream};
use crate::relay::Error;
use crate::relay::exactly_once::Urgency;
use crate::relay::feed::{Feed, Wish};
use crate::relay::intake::{self, Reading, Taken};
use crate::relay::link::Origin;
use crate::relay::needs::{Met, Need, Waiting};
use crate::replication::{Feedback, ReplicationMessage};
use crate::wal::{Lsn, Oid, PgTimestamp};

const MESSAGE_BYTES_MAX: usize = 1 << 16;
const STATUS_INTERVAL: Duration = Duration::from_millis(300);

pub(super) struct Session<'p> {
    pub(super) feed: Feed<'p, Pipe>,
    pub(super) feedback: Feedback,
    pub(super) origin: Origin,
    pub(super) confirmed: Lsn,
    pub(super) wire: Rc<RefCell<Wire>>,
    stream: ReplicationStream,
    router: &'p EventRouter,
    counts: [i32; 2],
    reading: Reading,
    awaiting: Option<(Waiting, Need)>,
    bug: Option<Bug>,
    kafka: Rc<RefCell<Kafka>>,
    process: usize,
    shadow: Rc<RefCell<Shadow>>,
    described: Vec<Oid>,
    last_row: Option<Lsn>,
}

/// What a session is opened with.
pub(super) struct Start<'p> {
    pub(super) feed: Feed<'p, Pipe>,
    pub(super) origin: Origin,
    pub(super) confirmed: Lsn,
    pub(super) wire: Rc<RefCell<Wire>>,
    pub(super) router: &'p EventRouter,
    pub(super) counts: [i32; 2],
    pub(super) shadow: Rc<RefCell<Shadow>>,
    pub(super) bug: Option<Bug>,
    pub(super) kafka: Rc<RefCell<Kafka>>,
    pub(super) process: usize,
}

impl<'p> Session<'p> {
    pub(super) fn new(start: Start<'p>, now: Instant) -> Self {
        let Start { feed, origin, confirmed, wire, router, counts, shadow, bug, kafka, process } = start;
        Self {
            feed,
            feedback: Feedback::new(STATUS_INTERVAL, confirmed, now),
            origin,
            confirmed,
            wire,
            stream: ReplicationStream::offline(MESSAGE_BYTES_MAX),
            router,
            counts,
            reading: Reading::On,
            awaiting: None,
            bug,
            kafka,
            process,
            shadow,
            described: Vec::new(),
            last_row: None,
        }
    }

    /// A turn of the loop. True when it was told to stop and everything is drained.
    pub(super) fn turn(&mut self, rng: &mut Rng, now: Instant, stopped: bool) -> Result<bool, Error> {
        let brief = self.awaiting.as_ref().is_none_or(|(_, need)| matches!(need, Need::Lull(_)));
        self.reading = self.reading.next(stopped, self.feed.flight.in_transaction(), brief);
        self.feed.flight.collect()?;
        self.flushed();
        self.pump()?;
        self.feed.flight.step(now, self.urgency())?;
        self.flushed();
        self.confirm(now)?;
        let drained = self.feed.flight.window().records() == 0 || self.bug == Some(Bug::DoesNotDrain);
        if self.reading == Reading::Off && drained {
            return Ok(true);
        }
        match self.reading {
            Reading::Off => {}
            _ if self.awaiting.is_some() => self.resume(rng)?,
            _ if self.feed.has_room() => self.fill(rng)?,
            _ => {}
        }
        Ok(false)
    }

    /// As a session drains after a failure. True when nothing is on its way.
    pub(super) fn drain(&mut self, now: Instant) -> Result<bool, Error> {
        self.feed.flight.absorb()?;
        self.feed.flight.step(now, Urgency::Now)?;
        self.feedback.flushed(self.feed.flight.frontier());
        self.confirm(now)?;
        Ok(self.feed.flight.is_settled())
    }

    const fn urgency(&self) -> Urgency {
        match self.reading {
            Reading::Off => Urgency::Now,
            _ if self.feed.behind || self.awaiting.is_some() => Urgency::More,
            Reading::On | Reading::ToCommit => Urgency::Idle,
        }
    }

    /// For the report of a seed that does not come to an end.
    pub(super) fn describe(&self) -> String {
        let (flight, wire) = (&self.feed.flight, self.wire.borrow());
        let need = self.awaiting.as_ref().map(|(_, need)| need);
        format!(
            "({:?}, {} in flight, frontier {}, awaiting {need:?}, {} bytes on the wire, closed: {})",
            self.reading,
            flight.window().records(),
            flight.frontier(),
            wire.bytes.len(),
            wire.closed,
        )
    }

    pub(super) fn forget_topics(&mut self) {
        self.feed.flight.forget_old(Instant::now() + Duration::from_secs(100_000));
    }

    fn fill(&mut self, rng: &mut Rng) -> Result<(), Error> {
        let mut wire = self.wire.borrow_mut();
        if wire.bytes.is_empty() {
            return if wire.closed { Err(broken()) } else { Ok(()) };
        }
        let length = rng.usize(1..=wire.bytes.len());
        self.stream.feed(&wire.bytes[..length]);
        wire.bytes.drain(..length);
        self.feed.behind = rng.u8(..) < 100;
        Ok(())
    }

    fn pump(&mut self) -> Result<(), Error> {
        while self.reading != Reading::Off && self.awaiting.is_none() && self.feed.has_room() {
            let message = match self.stream.buffered() {
                Ok(None) => return Ok(()),
                Ok(Some(message)) => message,
                Err(postgres::Error::Precondition { .. }) if self.bug == Some(Bug::IgnoresNotice) => continue,
                Err(error) => return Err(error.into()),
            };
            if passes_over(self.bug, &mut self.last_row, &message) {
                continue;
            }
            let keepalive = match message {
                ReplicationMessage::PrimaryKeepalive(keepalive) => Some(keepalive.wal_end),
                ReplicationMessage::XLogData(_) => None,
            };
            let wish = match intake::take(&mut self.feed, &mut self.feedback, message)? {
                Taken::Keepalive => Wish::None,
                Taken::Message { wish, .. } => wish,
                Taken::Held { need, waiting, .. } => {
                    self.awaiting = Some((waiting, need));
                    return Ok(());
                }
            };
            match (self.bug, keepalive) {
                (Some(Bug::ConfirmsOnReceive), _) => self.feedback.flushed(self.feedback.last_received()),
                (Some(Bug::ConfirmsKeepalives), Some(wal_end)) => self.feedback.flushed(wal_end),
                _ => {}
            }
            let committed = matches!(wish, Wish::Committed(_));
            self.grant(wish);
            if committed && self.reading == Reading::ToCommit {
                return Ok(());
            }
        }
        Ok(())
    }

    fn grant(&mut self, wish: Wish) {
        match wish {
            Wish::None | Wish::Await(_) => {}
            Wish::Committed(end_lsn) => self.shadow.borrow_mut().committed(end_lsn),
            Wish::Describe(relation) => {
                let stale = self.bug == Some(Bug::StaleRelation) && self.described.contains(&relation.oid);
                if !stale {
                    self.described.push(relation.oid);
                    self.feed.describe(relation.oid, table::bind(self.router, &relation));
                }
            }
        }
    }

    fn resume(&mut self, rng: &mut Rng) -> Result<(), Error> {
        let Some((waiting, need)) = self.awaiting.take() else { return Ok(()) };
        let Some(met) = self.met(&need, rng) else {
            self.awaiting = Some((waiting, need));
            return Ok(());
        };
        let Waiting::Message { data, lsn } = waiting else { return Ok(()) };
        match intake::take_again(&mut self.feed, &mut self.feedback, Some(met), (&data, lsn))? {
            Wish::Await(need) => self.awaiting = Some((Waiting::Message { data, lsn }, need)),
            wish => self.grant(wish),
        }
        Ok(())
    }

    /// The answer, if it is there.
    fn met(&self, need: &Need, rng: &mut Rng) -> Option<Met> {
        match need {
            Need::Topic(name) => rng.bool().then(|| {
                let number = table::EVENTS_TOPICS.iter().position(|topic| topic == name);
                let known = number.filter(|_| self.bug != Some(Bug::FirstHasCompany));
                let partitions = known.map_or(0, |number| usize::try_from(self.counts[number]).unwrap());
                Met::Topic { name: name.clone(), partitions }
            }),
            Need::Lull(lull) => {
                let notified = pin!(lull.notified());
                notified.poll(&mut Context::from_waker(Waker::noop())).is_ready().then_some(Met::Lull)
            }
            Need::Tail(question) => rng.bool().then(|| {
                let mut kafka = self.kafka.borrow_mut();
                Met::Tail(tails::read(&mut kafka, self.process, question, self.bug, rng))
            }),
            Need::Schema(_) => None,
        }
    }

    fn flushed(&mut self) {
        let frontier = self.feed.flight.frontier();
        self.feedback.flushed(frontier);
        let wrong = match self.bug {
            Some(Bug::ConfirmsTheLatest) => self.shadow.borrow().latest(),
            Some(Bug::ConfirmsTheNext) if frontier > self.confirmed => self.shadow.borrow().behind(frontier),
            _ => None,
        };
        if let Some(lsn) = wrong {
            self.feedback.flushed(lsn);
        }
    }

    fn confirm(&mut self, now: Instant) -> Result<(), Error> {
        let Some(update) = self.feedback.poll(now, PgTimestamp(0)) else { return Ok(()) };
        let mut wire = self.wire.borrow_mut();
        if wire.closed {
            return Err(broken());
        }
        wire.updates.push(update.flushed.get());
        Ok(())
    }
}

/// Whether a planted bug takes a row for a repeat.
fn passes_over(bug: Option<Bug>, last_row: &mut Option<Lsn>, message: &ReplicationMessage<'_>) -> bool {
    let ReplicationMessage::XLogData(data) = message else { return false };
    if data.data.first() != Some(&b'I') {
        return false;
    }
    let before = last_row.replace(data.wal_start);
    match bug {
        Some(Bug::RowLsnIsIdentity) => before.is_some_and(|before| data.wal_start <= before),
        Some(Bug::SkipsFirstRow) => before.is_none(),
        _ => false,
    }
}

pub(super) fn broken() -> Error {
    let source = std::io::ErrorKind::ConnectionReset.into();
    postgres::Error::Broken { doing: "streaming", source }.into()
}
