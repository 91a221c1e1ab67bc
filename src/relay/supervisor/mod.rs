//! One session after another: what opens them, what ends them, and what is tried again.

mod ending;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::clock::Now;
use super::core::Core;
use super::feed::Feed;
use super::heartbeat::Pulse;
use super::heartbeat_query;
use super::link::Link;
use super::memory::Memory;
use super::offsets::Offsets;
use super::opening::{Opened, is_our_own};
use super::parts::RelayParts;
use super::position_store::Positions;
use super::repeats::Repeats;
use super::retry::{self, HeldSlot, Next, Situation};
use super::session::{self, Session};
use super::slot_start::{Known, Opening};
use super::takeover;
use super::watcher::{ServerLsn, SlotWarnings, SlotWatch, watch_kafka};
use crate::error::{Class, Diagnose, chain};
use crate::kafka;
use crate::postgres::{self, SlotHolder, TlsSetup};
use crate::telemetry::{Component, Holder, Metrics, Phase, Status};

/// How long one question to the brokers may take while the first of them is awaited.
const KAFKA_QUESTION: Duration = Duration::from_millis(500);

/// Where is kept how far the relay has come.
struct Places<'p> {
    offsets: Option<&'p Offsets>,
    positions: Option<Positions>,
}

/// Says once why the slot is lost.
type Lost = mpsc::Receiver<postgres::Error>;

/// The relay: opens sessions, mends what a retry can mend, stops when told.
#[derive(Debug)]
pub struct Relay {
    parts: Arc<RelayParts>,
    status: Status,
    metrics: Metrics,
    slot_warnings: SlotWarnings,
}

impl Relay {
    /// A relay that has not started.
    #[must_use]
    pub fn new(parts: Arc<RelayParts>, status: Status, metrics: Metrics) -> Self {
        let slot_warnings = SlotWarnings::nothing(parts.relay.guard);
        Self { parts, status, metrics, slot_warnings }
    }

    /// Relays until `stop`, then drains.
    ///
    /// # Errors
    /// When something fails that a retry cannot mend, or retries are used up, or the drain takes too long.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), Error> {
        let outcome = self.run_sessions(stop).await;
        self.status.enter(Phase::Stopped);
        outcome
    }

    async fn run_sessions(&self, stop: &CancellationToken) -> Result<(), Error> {
        let (tls, ()) = tokio::try_join!(self.read_tls(), self.reach_kafka(stop))?;
        if stop.is_cancelled() {
            return Ok(());
        }
        let (offsets, mut memory) = (Offsets::new(&self.parts)?, Memory::default());
        let places = Places { offsets: offsets.as_ref(), positions: Positions::new(&self.parts)? };
        let outcome = self.run_until_stopped(&tls, &places, &mut memory, stop).await;
        let drained = !matches!(outcome, Err(Error::Undrained { .. }));
        let lasts = memory.offset_is_ours && !self.parts.postgres.slot.drop_on_stop;
        if let Some(offsets) = offsets.filter(|_| drained && lasts) {
            offsets.write(memory.offset).await;
        }
        outcome
    }

    async fn run_until_stopped(
        &self,
        tls: &TlsSetup,
        places: &Places<'_>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        loop {
            self.status.enter(Phase::Connecting);
            let Some(link) = self.open(tls, places, memory, stop).await? else { return Ok(()) };
            match self.run_session(*link, tls, places.offsets, memory, stop).await {
                Ok(()) => return Ok(()),
                Err(error) => {
                    let situation = Situation {
                        fenced_again: memory.is_fenced_again(&error, Instant::now()),
                        ..self.situation(retry::Step::Session, memory, stop)
                    };
                    let pause = self.endure(error, situation, memory).await?;
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = time::sleep(pause) => {}
                    }
                }
            }
        }
    }

    /// OpenSSL takes as long for the system's certificates as a broker takes to answer: a thread of its own.
    async fn read_tls(&self) -> Result<TlsSetup, Error> {
        let parts = Arc::clone(&self.parts);
        let reading = tokio::task::spawn_blocking(move || TlsSetup::new(&parts.postgres.server));
        let read = reading.await.map_err(|aborted| postgres::Error::Unexpected {
            message: aborted.to_string(),
            doing: "reading the certificates",
        })?;
        Ok(read?)
    }

    /// Kafka before PostgreSQL: a slot that is held while nothing can be sent only keeps others from it.
    async fn reach_kafka(&self, stop: &CancellationToken) -> Result<(), Error> {
        let start = Instant::now();
        while !stop.is_cancelled() {
            let parts = Arc::clone(&self.parts);
            // Asking blocks a thread that nothing can wake: short questions, so that a stop takes effect soon.
            let asking = tokio::task::spawn_blocking(move || {
                parts.producer.await_broker(&parts.kafka, KAFKA_QUESTION)
            });
            let answer = asking.await;
            let mut error = match answer
                .unwrap_or_else(|_| Err(kafka::Error::Fatal("the check was aborted".to_owned())))
            {
                Ok(cluster_id) => {
                    tracing::info!(cluster_id, servers = self.parts.kafka.bootstrap_servers, "Kafka answers");
                    self.status.up(Component::Kafka, Instant::now());
                    return Ok(());
                }
                Err(error) => error,
            };
            if let kafka::Error::Unreachable { seconds, .. } = &mut error {
                *seconds = start.elapsed().as_secs();
            }
            if self.parts.relay.startup_timeout.is_some_and(|patience| start.elapsed() >= patience) {
                return Err(error.into());
            }
            self.status.down(Component::Kafka, error.to_string(), Instant::now());
            self.status.tick_idle(Instant::now());
        }
        Ok(())
    }

    /// Opens a link, trying again as long as that can help. `None` when there is nothing to stream: told to stop, or
    /// only a snapshot was asked for.
    async fn open(
        &self,
        tls: &TlsSetup,
        places: &Places<'_>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<Option<Box<Link>>, Error> {
        let first_start = memory.acknowledged.is_none();
        let deadline =
            first_start.then_some(self.parts.relay.startup_timeout).flatten().map(|d| Instant::now() + d);
        loop {
            let (parts, status, metrics) = (&self.parts, &self.status, &self.metrics);
            let known = memory.acknowledged.clone();
            let known = known.map(|(origin, acknowledged)| Known {
                origin,
                to: acknowledged.to,
                shared: memory.stood_by,
            });
            let captured = &memory.captured;
            let (offsets, positions) = (places.offsets, places.positions.as_ref());
            let (known, saw_slot) = (known.as_ref(), memory.saw_slot);
            let opening =
                Opening { parts, tls, status, metrics, offsets, positions, saw_slot, known, captured };
            let outcome = tokio::select! {
                () = stop.cancelled() => return Ok(None),
                outcome = opening.open() => outcome,
            };
            let pause = match outcome {
                Ok(Opened::SnapshotOnly) => return Ok(None),
                Ok(Opened::Link(link)) => {
                    memory.reached_primary = true;
                    self.tell_assumptions(&link, memory);
                    return Ok(Some(link));
                }
                Err(Error::Postgres(postgres::Error::SlotActive(holder))) => {
                    self.wait_for_slot(holder, memory, deadline)?
                }
                Err(error) => {
                    let situation = Situation {
                        time_left: time_left(deadline),
                        ..self.situation(retry::Step::Opening, memory, stop)
                    };
                    self.endure(error, situation, memory).await?
                }
            };
            self.status.tick_idle(Instant::now());
            tokio::select! {
                () = stop.cancelled() => return Ok(None),
                () = time::sleep(pause) => {}
            }
        }
    }

    /// The slot is held. By another instance of ours: stand by. By another program: as `slot.max.retries` says.
    fn wait_for_slot(
        &self,
        holder: SlotHolder,
        memory: &mut Memory,
        deadline: Option<Instant>,
    ) -> Result<Duration, Error> {
        let by_us = is_our_own(&holder);
        if by_us {
            (memory.stood_by, memory.reached_primary) = (true, true);
            memory.saw_slot |= holder.has_slot;
        } else {
            memory.slot_retries = memory.slot_retries.saturating_add(1);
        }
        let retry = self.parts.postgres.slot.retry;
        let held = HeldSlot { by_us, retry, tries: memory.slot_retries, time_left: time_left(deadline) };
        match retry::after_held_slot(held, fastrand::f64()) {
            Next::StandBy { pause } => {
                self.status.up(Component::Slot, Instant::now());
                let holder = Holder { pid: holder.pid, application: holder.application };
                self.status.enter(Phase::StandingBy(holder));
                Ok(pause)
            }
            Next::Retry { pause, .. } => {
                self.status.down(Component::Slot, holder.to_string(), Instant::now());
                Ok(pause)
            }
            Next::Stop | Next::NewProducer => Err(postgres::Error::SlotActive(holder).into()),
        }
    }

    async fn run_session(
        &self,
        mut link: Link,
        tls: &TlsSetup,
        offsets: Option<&Offsets>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let batch = match takeover::take_over(&self.parts, &mut link, stop).await {
            Err(_) if stop.is_cancelled() => return Ok(()),
            batch => batch?,
        };
        let start = (link.confirmed, link.clock);
        let (acknowledged, stored) = memory.of(&link.origin, link.stored.as_ref(), start);
        let (origin, confirmed) = (link.origin.clone(), link.confirmed);
        let follows = memory.acknowledged.is_none() || memory.stood_by;
        let repeat_range = link.repeat_range(follows);
        let mut feed = Feed::new(&self.parts, &self.metrics, confirmed, acknowledged, stored);
        feed.flight.in_transactions(batch);
        feed.dispatch.repeats = Repeats::new(&self.parts.relay, repeat_range);
        feed.start();
        let (server, ended, mut watchers) = (ServerLsn::default(), stop.child_token(), JoinSet::new());
        let (mut slot_watcher, lost) = self.watch_slot(&link, server.clone(), stop.child_token());
        watchers.spawn(watch_kafka(Arc::clone(&self.parts), ended.clone()));
        watchers.spawn(heartbeat_query::run(Arc::clone(&self.parts), tls.clone(), ended.clone()));
        self.status.up(Component::Slot, Instant::now());
        self.status.enter(Phase::Streaming);
        let now = Now::read();
        let feedback = session::feedback(&self.parts, &link, now);
        let mut core = Core::new(feed, feedback, Pulse::new(&self.parts, now.instant), now);
        core.positions = link.position.pacing(self.parts.relay.shutdown_timeout);
        let mut session = Session::new(&self.parts, link, &mut core, &self.status, &self.metrics, server);
        if let Some(offsets) = offsets {
            watchers.spawn(offsets.clone().keep(session.offset.subscribe(), ended.clone()));
        }
        let outcome = self.stream_and_stop(&mut session, stop).await;
        ended.cancel();
        watchers.shutdown().await;
        let outcome = match outcome {
            Ok(()) => self.say_goodbye(session).await,
            Err(error) => {
                // The connection goes before the wait for Kafka: the server may be waiting for us to leave.
                drop(session);
                Err(error)
            }
        };
        if outcome.is_err() && !stop.is_cancelled() {
            self.status.enter(Phase::Connecting);
        }
        // The next session must not start while records of this one are on their way: they would overtake each other. After a
        // definite error there is none, and the wait for Kafka was that of `after_failure`, which has a limit.
        let goes_on = matches!(&outcome, Err(error) if error.class() != Class::Definite);
        let gone = self.settle(&mut core, goes_on, lost, stop).await;
        slot_watcher.shutdown().await;
        memory.remember(origin, confirmed, &core.feed, Now::read());
        gone.map_or(outcome, |error| Err(error.into()))
    }

    /// The task that watches the slot, until the next session may begin, and where it says that the slot is lost.
    fn watch_slot(&self, link: &Link, server: ServerLsn, stop: CancellationToken) -> (JoinSet<()>, Lost) {
        let (sender, lost) = mpsc::channel(1);
        let watch = SlotWatch {
            sql: Arc::clone(&link.sql),
            parts: Arc::clone(&self.parts),
            metrics: self.metrics.clone(),
            status: self.status.clone(),
            server,
            warnings: self.slot_warnings.clone(),
            lost: sender,
        };
        let mut watcher = JoinSet::new();
        watcher.spawn(watch.watch(stop));
        (watcher, lost)
    }

    async fn stream_and_stop(
        &self,
        session: &mut Session<'_, '_>,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let within = self.parts.relay.shutdown_timeout;
        let overdue = async {
            stop.cancelled().await;
            self.status.enter(Phase::Draining);
            time::sleep(within).await;
        };
        let outcome = tokio::select! {
            biased;
            // First, so that a stream that never waits cannot keep a stop from ending.
            () = overdue => None,
            outcome = session.stream(stop) => Some(outcome),
        };
        let Some(outcome) = outcome else {
            return Err(Error::Undrained { records: session.core.feed.flight.window().records(), within });
        };
        match outcome {
            Err(error) if error.class() == Class::Definite || matches!(error, Error::Kafka(_)) => {
                Err(self.after_failure(session, error).await)
            }
            outcome => outcome,
        }
    }

    /// Does what has to follow a failure, up to the pause before the next attempt; or gives the error back when it ends the
    /// relay.
    async fn endure(
        &self,
        error: Error,
        situation: Situation,
        memory: &mut Memory,
    ) -> Result<Duration, Error> {
        let (pause, producer) = match retry::after(&error, situation, fastrand::f64()) {
            Next::Stop => return Err(error),
            Next::NewProducer => (Duration::ZERO, retry::Producer::New),
            Next::Retry { pause, producer } => {
                memory.backoff = memory.backoff.counted();
                (pause, producer)
            }
            Next::StandBy { pause } => (pause, retry::Producer::Same),
        };
        if situation.step == retry::Step::Session || error.is_condemned() {
            self.metrics.reconnect(error.peer());
        }
        match producer {
            retry::Producer::New => self.renew_producer(&error).await?,
            retry::Producer::Same => {
                let of_kafka = matches!(error, Error::Kafka(_));
                let component = if of_kafka { Component::Kafka } else { Component::Postgres };
                self.status.down(component, chain(&error), Instant::now());
            }
        }
        Ok(pause)
    }

    /// A producer that said what may not be so is replaced; nothing of it is on its way any more.
    async fn renew_producer(&self, error: &Error) -> Result<(), Error> {
        if error.is_condemned() {
            tracing::info!("a new producer goes on from the slot after a record that Kafka refused");
        } else {
            tracing::warn!(error = chain(error), "a new producer sends the record again, and those after it");
        }
        let parts = Arc::clone(&self.parts);
        // Ending the old one waits for its threads.
        let renewed = tokio::task::spawn_blocking(move || parts.producer.renew()).await;
        renewed.unwrap_or_else(|_| Err(kafka::Error::Fatal("it cannot be replaced".to_owned())))?;
        Ok(())
    }

    fn situation(&self, step: retry::Step, memory: &Memory, stop: &CancellationToken) -> Situation {
        Situation {
            step,
            stopping: stop.is_cancelled(),
            backoff: memory.backoff,
            retries_max: self.parts.relay.retries_max,
            fruitless: memory.fruitless,
            fenced_again: false,
            reached_primary: memory.reached_primary,
            time_left: None,
        }
    }

    fn tell_assumptions(&self, link: &Link, memory: &mut Memory) {
        if !std::mem::replace(&mut memory.told_assumptions, true) {
            for assumption in &link.capture.assumptions {
                tracing::warn!("{assumption}");
            }
        }
    }
}

fn time_left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}
