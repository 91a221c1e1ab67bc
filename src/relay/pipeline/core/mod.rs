//! The core of the relay: what it decides between two waits, without a socket and without a clock.
//!
//! ```text
//! what happened ──▶ turn(now, event, wanted, source) ──▶ an update for PostgreSQL, a question to ask, what to wait for
//! ```
//!
//! A turn reads delivery reports, then rows while there is room for them, and returns what must be done.
//! Three callers drive it: the session with its connections, the snapshot, and the simulation. The caller
//! reads the clock, once a turn, and does what the turn requires before the next one.

mod aside;
mod ending;
mod intake;
mod load;
mod reading;
mod standstill;

use std::time::{Duration, Instant};

use super::feed::{Feed, Outcome};
use super::heartbeat::Pulse;
use super::signals::{Done, Task};
use crate::kafka::{Inlet, Reports, Transport};
use crate::postgres;
use crate::relay::delivery::dispatch::UnsentRecords;
use crate::relay::delivery::exactly_once::Urgency;
use crate::relay::delivery::needs::{Answer, Need};
use crate::relay::error::Error;
use crate::relay::progress::position::{DuePosition, Pacing};
use crate::relay::time::clock::Now;
use crate::replication::{Feedback, StandbyStatusUpdate};
use aside::Outside;
pub(in crate::relay) use ending::{CAUSE_TIMEOUT, Drain, Draining, Ending, Limits};
pub(in crate::relay) use intake::Taken;
use intake::XLogMessage;
#[cfg(test)]
pub(in crate::relay) use intake::take;
use load::load;
pub(in crate::relay) use reading::{Reading, Wanted};

/// Interval of status updates while nothing happens, and the shortest one while much does.
pub(in crate::relay) const TICK: Duration = Duration::from_millis(500);

/// Pause before the next read while the relay is behind. The walsender sends each message with a system call
/// of its own, and a reader that wakes for each of them slows it down; one that lets them gather gets more in
/// less time.
const REST: Duration = Duration::from_millis(4);

/// Source of messages or rows for the core.
pub(in crate::relay) trait Source {
    /// Passes the next one to the feed. Returns `None` when there is none without waiting.
    ///
    /// # Errors
    /// When it cannot be read or taken.
    fn take_next<T: Transport>(
        &mut self,
        feed: &mut Feed<'_, T>,
        feedback: &mut Feedback,
        now: Now,
    ) -> Result<Option<Taken>, Error>;
}

/// One stream or one snapshot: the rows in flight, and the feedback to the server.
pub(in crate::relay) struct Core<'p, T = Inlet> {
    pub(in crate::relay) feed: Feed<'p, T>,
    pub(in crate::relay) feedback: Feedback,
    /// Positions; nothing is confirmed beyond the one that Kafka has.
    pub(in crate::relay) positions: Pacing,
    pulse: Option<Pulse>,
    reading: Reading,
    /// Waiting item, if there is one: the only place where anything waits before the producer. Nothing behind it is accepted.
    held: Option<Held>,
    /// Its requirement, until a turn returns it.
    need: Option<Need>,
    /// Time until which the socket is not read.
    rests_until: Option<Instant>,
    last_tick: Instant,
    /// The process has stood still with records on their way: they may be written behind those of another one.
    stood_still: bool,
    outside: Outside,
    /// True if a caller waits until what was handed over is in Kafka, also for consumers that read committed
    /// records.
    pub(in crate::relay) is_awaited: bool,
}

/// Item that waits, and its requirement.
struct Held {
    waiting: Waiting,
    until: Until,
}

/// Waiting item.
#[derive(Debug)]
enum Waiting {
    /// A message, of which nothing has happened: it is given to the feed again.
    Message(XLogMessage),
    /// A row that its source gives again.
    Row,
    /// Records of a message that is handled.
    Records(UnsentRecords),
    /// Nothing but the stream: for the rows behind a relation's description, or for a heartbeat or a notification that stays due.
    Aside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Until {
    /// Nothing is in flight to Kafka.
    QueueEmpty,
    /// The rows of a chunk are read.
    Rows,
    /// An answer has arrived.
    Answer { brief: bool },
}

/// Event since the last turn.
#[derive(Debug, Default)]
pub(in crate::relay) enum Event {
    /// Only time or delivery reports.
    #[default]
    None,
    /// Number of bytes that were read.
    Read(usize),
    /// The last question was answered.
    Answer(Result<Answer, Error>),
    /// A task of a chunk was done.
    Done(Done),
    /// A signal has come that does not come in the stream.
    Signal(String),
}

/// Result of a turn.
#[derive(Debug)]
pub(in crate::relay) struct Turn {
    /// For the server, now.
    pub(in crate::relay) update: Option<StandbyStatusUpdate>,
    /// The position to be written.
    pub(in crate::relay) store: Option<DuePosition>,
    /// To be asked. The answer is an event.
    pub(in crate::relay) need: Option<Need>,
    /// To be done in the database. That it is done is an event.
    pub(in crate::relay) task: Option<Task>,
    /// Reason for which Kafka accepts no records.
    pub(in crate::relay) obstacle: Option<String>,
    /// True if the status must be updated.
    pub(in crate::relay) ticked: bool,
    pub(in crate::relay) then: Then,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Then {
    /// Everything is sent, acknowledged and confirmed.
    Ended,
    /// The next turn comes with delivery reports, when something else is wanted, or with one of these.
    Wait {
        /// Bytes or rows of the source.
        reads: bool,
        /// The answer to the last question.
        answers: bool,
        /// Time until which the source is not read; delivery reports can wait as long.
        rests_until: Option<Instant>,
        /// Latest time of the next turn.
        until: Instant,
    },
}

impl<'p, T: Transport> Core<'p, T> {
    pub(in crate::relay) const fn new(
        feed: Feed<'p, T>,
        feedback: Feedback,
        pulse: Option<Pulse>,
        now: Now,
    ) -> Self {
        Self {
            feed,
            feedback,
            positions: Pacing::off(),
            pulse,
            reading: Reading::On,
            held: None,
            need: None,
            rests_until: None,
            last_tick: now.instant,
            stood_still: false,
            outside: Outside::nothing(),
            is_awaited: false,
        }
    }

    /// Runs the turn after an event.
    ///
    /// # Errors
    /// When the stream cannot be understood, a row cannot be sent, or the producer cannot go on.
    pub(in crate::relay) fn turn(
        &mut self,
        now: Now,
        event: Event,
        wanted: Wanted,
        source: &mut impl Source,
    ) -> Result<Turn, Error> {
        self.check_clock(now);
        self.take(event, now)?;
        self.reading = self.reading.next(wanted, self.feed.out.flight.in_transaction(), self.waits_briefly());
        // Reports first: they make room for messages that are in the buffer, for which nothing else would wake us.
        let reports = self.feed.out.flight.collect(now)?;
        let ticked = self.tick(now)?;
        if self.reading != Reading::Off && self.waits_until(Until::QueueEmpty) && self.is_queue_empty() {
            self.resume(Ok(Answer::QueueEmpty), now)?;
        }
        if self.reading != Reading::Off && self.waits_until(Until::Rows) && !self.feed.lacks_rows() {
            self.resume(Ok(Answer::Rows), now)?;
        }
        self.pump(now, source)?;
        if self.held.is_none() {
            // Before anything else can be held: all records of the row that was read last are handed over.
            self.feed.end_read_row();
        }
        self.beat(now)?;
        self.notify(now)?;
        self.feed.report_snapshots();
        self.feed.out.flight.step(now, self.urgency())?;
        let store = self.position_to_store(self.reading == Reading::Off && self.is_queue_empty(), now);
        let update = self.feedback.poll(now.instant, now.postgres());
        Ok(Turn {
            update,
            store,
            need: self.need.take(),
            task: self.next_task(),
            obstacle: obstacle(&reports),
            ticked,
            then: self.then(now),
        })
    }

    /// Returns whether something waits for what it needs.
    pub(in crate::relay) const fn is_waiting(&self) -> bool {
        self.held.is_some()
    }

    /// Returns whether the next turn updates the status.
    pub(in crate::relay) fn is_tick_due(&self, now: Now) -> bool {
        self.last_tick + TICK <= now.instant
    }

    /// Returns the time at which a position is due, or its answer is not waited for any longer.
    fn position_due(&self, now: Now) -> Option<Instant> {
        self.positions.wake_at(self.feed.out.flight.frontier(), now.instant)
    }

    /// Limits what may be confirmed to the stored position. Returns the position to write, if one is due: the `last` one at
    /// once.
    fn position_to_store(&mut self, last: bool, now: Now) -> Option<DuePosition> {
        let lsn = self.feed.out.flight.frontier();
        let committed = self.feed.out.flight.last_acknowledged().map(|(_, committed)| committed);
        self.request_snapshot_store(lsn);
        let is_due = self.positions.turn(lsn, last, now.instant);
        self.feedback.flushed(self.positions.confirmable(lsn));
        is_due.then(|| DuePosition { lsn, committed, snapshots: self.feed.snapshots_at(lsn) })
    }

    /// Returns whether everything is acknowledged, and its position stored or not waited for any longer.
    fn is_position_stored(&self, now: Now) -> bool {
        self.positions.is_settled(self.feed.out.flight.frontier(), now.instant)
    }

    /// Returns how far it reads.
    #[cfg(test)]
    pub(in crate::relay) const fn reading(&self) -> Reading {
        self.reading
    }

    fn take(&mut self, event: Event, now: Now) -> Result<(), Error> {
        match event {
            Event::None => {}
            Event::Read(bytes) => {
                self.feedback.restart_silence(now.instant);
                self.rest_after(bytes, now);
            }
            Event::Answer(answer) => self.resume(answer, now)?,
            Event::Signal(document) => self.outside.came(document),
            Event::Done(done) => {
                if let Some(signals) = &mut self.feed.signals {
                    signals.take(done);
                }
            }
        }
        Ok(())
    }

    fn rest_after(&mut self, bytes: usize, now: Now) {
        let rests;
        (self.feed.behind, rests) = load(bytes, self.feed.late);
        self.rests_until = rests.then(|| now.instant + REST);
    }

    /// Continues with what waited; it may need something more.
    fn resume(&mut self, answer: Result<Answer, Error>, now: Now) -> Result<(), Error> {
        let Some(Held { waiting, .. }) = self.held.take() else { return Ok(()) };
        let about_a_row = matches!(waiting, Waiting::Message(_) | Waiting::Row);
        match answer {
            Ok(answer) => self.feed.learn(answer, now),
            Err(Error::Registry(error)) if about_a_row => self.feed.refuse(error)?,
            Err(error) => return Err(error),
        }
        match waiting {
            Waiting::Records(records) => {
                let outcome = intake::resume(&mut self.feed, &mut self.feedback, records, now)?;
                self.grant(outcome, Waiting::Aside);
            }
            Waiting::Message(message) => {
                let outcome = intake::take_again(&mut self.feed, &mut self.feedback, &message, now)?;
                self.grant(outcome, Waiting::Message(message));
            }
            Waiting::Row | Waiting::Aside => {}
        }
        Ok(())
    }

    /// Handles everything that the source has, while the window has room.
    fn pump(&mut self, now: Now, source: &mut impl Source) -> Result<(), Error> {
        while self.reading != Reading::Off && self.held.is_none() && self.feed.has_room() {
            self.act_between(now)?;
            if let Some(outcome) = self.feed.send_read_row(now)? {
                self.grant(outcome, Waiting::Row);
                continue;
            }
            if self.feed.is_blocked() {
                return Ok(());
            }
            let Some(taken) = source.take_next(&mut self.feed, &mut self.feedback, now)? else {
                return Ok(());
            };
            let committed = match taken {
                Taken::Keepalive => false,
                Taken::Lacking { need, message, .. } => {
                    self.hold(Waiting::Message(message), need);
                    false
                }
                Taken::Message { outcome, .. } => {
                    let committed = matches!(outcome, Outcome::Committed(_));
                    self.grant(outcome, Waiting::Row);
                    committed
                }
            };
            if committed && self.reading == Reading::ToCommit {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Does what a message requires. What lacks something waits as `lacking`.
    fn grant(&mut self, outcome: Outcome, lacking: Waiting) {
        match outcome {
            Outcome::None => {}
            Outcome::Committed(_) => self.feed.out.metrics.transactions(1),
            Outcome::Describe(relation) => self.hold(Waiting::Aside, self.feed.asks_for(Box::new(relation))),
            Outcome::Unsent(unsent) => self.hold(Waiting::Records(unsent.records), unsent.need),
            Outcome::Lacks(need) => self.hold(lacking, need),
        }
    }

    fn hold(&mut self, waiting: Waiting, need: Need) {
        let until = match need {
            Need::QueueEmpty => Until::QueueEmpty,
            Need::Rows => Until::Rows,
            _ => Until::Answer { brief: need.is_brief() },
        };
        self.need = Some(need).filter(|_| matches!(until, Until::Answer { .. }));
        self.held = Some(Held { waiting, until });
    }

    fn tick(&mut self, now: Now) -> Result<bool, Error> {
        if !self.is_tick_due(now) {
            return Ok(false);
        }
        self.last_tick = now.instant;
        self.feed.forget_old(now.instant);
        // Somewhere on the way the other half of the connection is lost.
        if self.feedback.is_silent(now.instant) {
            let source = std::io::ErrorKind::TimedOut.into();
            return Err(
                postgres::Error::Broken { doing: "streaming: the server does not answer", source }.into()
            );
        }
        Ok(true)
    }

    fn then(&mut self, now: Now) -> Then {
        let off = self.reading == Reading::Off;
        if off && self.is_queue_empty() && self.is_position_stored(now) {
            return Then::Ended;
        }
        let reads = !off && self.held.is_none() && !self.feed.is_blocked() && self.feed.has_room();
        if !reads {
            // A server that we do not read from is not silent.
            self.feedback.restart_silence(now.instant);
        }
        let answers =
            !off && self.held.as_ref().is_some_and(|held| matches!(held.until, Until::Answer { .. }));
        let rests_until = self.rests_until.filter(|until| *until > now.instant);
        Then::Wait { reads, answers, rests_until, until: self.wake_at(now, rests_until) }
    }

    fn wake_at(&self, now: Now, rests_until: Option<Instant>) -> Instant {
        if self.waits_until(Until::QueueEmpty) && self.is_queue_empty() {
            return now.instant;
        }
        let (pulse, commit) = (self.pulse.as_ref().map(Pulse::due), self.feed.out.flight.commit_due());
        let others = [pulse, commit, self.position_due(now), rests_until];
        let regular = self.feedback.due().min(self.last_tick + TICK);
        others.into_iter().flatten().fold(regular, Instant::min)
    }

    /// Returns the urgency of a commit.
    const fn urgency(&self) -> Urgency {
        match self.reading {
            Reading::Off => Urgency::Now,
            _ if self.is_awaited => Urgency::Now,
            _ if self.feed.behind || self.held.is_some() => Urgency::More,
            Reading::On | Reading::ToCommit => Urgency::Idle,
        }
    }

    fn waits_until(&self, until: Until) -> bool {
        self.held.as_ref().is_some_and(|held| held.until == until)
    }

    fn waits_briefly(&self) -> bool {
        let is_long = |until| matches!(until, Until::Answer { brief: false } | Until::Rows);
        !self.feed.is_blocked() && self.held.as_ref().is_none_or(|held| !is_long(held.until))
    }

    const fn is_queue_empty(&self) -> bool {
        self.feed.out.flight.window().records() == 0
    }
}

fn obstacle(reports: &Reports) -> Option<String> {
    reports.obstacle().map(str::to_owned)
}
