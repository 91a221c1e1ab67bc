//! One session after another: what opens them, what ends them, and what is tried again.

mod ending;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::exactly_once;
use super::feed::Feed;
use super::link::{Known, Link, Opened, Opening, is_our_own};
use super::memory::Memory;
use super::offsets::Offsets;
use super::repeats::{Horizon, Repeats};
use super::session::Session;
use super::watcher::{ServerLsn, SlotWatch, Told, watch_kafka};
use super::{DeadLetters, Error, Options, heartbeat};
use crate::error::{Class, Diagnose, chain};
use crate::kafka::{self, Producer};
use crate::outbox::{EventRouter, MessageOutbox};
use crate::postgres::{self, SlotHolder, SlotRetry, TableFilter, TlsSetup};
use crate::registry::Registries;
use crate::telemetry::{Component, Holder, Metrics, Peer, Phase, Status};

/// How often a standby looks whether the slot is free.
const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

/// How long one question to the brokers may take while the first of them is awaited.
const KAFKA_QUESTION: Duration = Duration::from_millis(500);

/// How long the delivery report that tells the cause of a fatal producer error is awaited.
pub(super) const CAUSE_TIMEOUT: Duration = Duration::from_secs(2);

/// A stream that cannot be understood is asked for again this often: a flipped bit on the way does not come twice.
const GARBLED_RETRIES_MAX: u32 = 3;

/// After a record that Kafka acknowledged and may not have written, this many sessions in a row may bring nothing forward.
const UNWRITTEN_RETRIES_MAX: u32 = 5;

/// Says once why the slot is lost.
type Lost = mpsc::Receiver<postgres::Error>;

/// Everything the relay is made of, once the configuration is understood.
#[derive(Debug)]
pub struct RelayParts {
    /// How PostgreSQL is reached.
    pub postgres: postgres::Options,
    /// How Kafka is reached.
    pub kafka: kafka::Options,
    /// Limits and patience.
    pub relay: Options,
    /// Which tables are captured.
    pub tables: TableFilter,
    /// The transform.
    pub router: EventRouter,
    /// Logical messages as an outbox, when they are one.
    pub messages: Option<MessageOutbox>,
    /// The producer.
    pub producer: Producer,
    /// Where events go that cannot be sent.
    pub dead_letters: Option<DeadLetters>,
    /// The schema registries of the converters that need one.
    pub registries: Registries,
}

/// The relay: opens sessions, mends what a retry can mend, stops when told.
#[derive(Debug)]
pub struct Relay {
    parts: Arc<RelayParts>,
    status: Status,
    metrics: Metrics,
    told: Told,
}

impl Relay {
    /// A relay that has not started.
    #[must_use]
    pub fn new(parts: Arc<RelayParts>, status: Status, metrics: Metrics) -> Self {
        let told = Told::nothing(parts.relay.guard);
        Self { parts, status, metrics, told }
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
        let outcome = self.run_until_stopped(&tls, offsets.as_ref(), &mut memory, stop).await;
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
        offsets: Option<&Offsets>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        loop {
            self.status.enter(Phase::Connecting);
            let Some(link) = self.open(tls, offsets, memory, stop).await? else { return Ok(()) };
            match self.run_session(*link, tls, offsets, memory, stop).await {
                Ok(()) => return Ok(()),
                Err(error) => self.endure(error, memory, stop).await?,
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
            // Asking blocks a thread that nothing can wake: short questions, so that a stop is heeded.
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
        offsets: Option<&Offsets>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<Option<Box<Link>>, Error> {
        let first_start = memory.acknowledged.is_none();
        let deadline =
            first_start.then_some(self.parts.relay.startup_timeout).flatten().map(|d| Instant::now() + d);
        loop {
            let (parts, status, metrics) = (&self.parts, &self.status, &self.metrics);
            let known = memory.acknowledged.clone();
            let known = known.map(|(origin, to)| Known { origin, to, shared: memory.stood_by });
            let opening = Opening { parts, tls, status, metrics, offsets, known: known.as_ref() };
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
                Err(error) if !memory.may_pass(&error) => return Err(error),
                Err(error) if error.is_condemned() => {
                    self.metrics.reconnect(Peer::Kafka);
                    self.mend(&error).await?;
                    continue;
                }
                Err(error) => {
                    let pause = memory.backoff.next(fastrand::f64());
                    if memory.runs_out_of_patience(deadline, pause) || self.exhausted(memory) {
                        return Err(error);
                    }
                    self.mend(&error).await?;
                    pause
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
        if is_our_own(&holder) {
            (memory.stood_by, memory.reached_primary) = (true, true);
            self.status.up(Component::Slot, Instant::now());
            self.status.enter(Phase::StandingBy(Holder { pid: holder.pid, application: holder.application }));
            return Ok(STANDBY_INTERVAL.mul_f64(0.75 + fastrand::f64() / 2.0));
        }
        memory.slot_retries = memory.slot_retries.saturating_add(1);
        let (pause, over) = match self.parts.postgres.slot.retry {
            Some(SlotRetry { retries_max, delay }) => (delay, memory.slot_retries > retries_max),
            None => (
                STANDBY_INTERVAL,
                deadline.is_some_and(|deadline| Instant::now() + STANDBY_INTERVAL > deadline),
            ),
        };
        if over {
            return Err(postgres::Error::SlotActive(holder).into());
        }
        self.status.down(Component::Slot, holder.to_string(), Instant::now());
        Ok(pause)
    }

    async fn run_session(
        &self,
        mut link: Link,
        tls: &TlsSetup,
        offsets: Option<&Offsets>,
        memory: &mut Memory,
        stop: &CancellationToken,
    ) -> Result<(), Error> {
        let batch = match exactly_once::take_over(&self.parts, &mut link, stop).await {
            Err(_) if stop.is_cancelled() => return Ok(()),
            batch => batch?,
        };
        let (acknowledged, stored) = memory.of(&link.origin, link.stored.as_ref());
        let (origin, confirmed) = (link.origin.clone(), link.confirmed);
        let follows = memory.acknowledged.is_none() || memory.stood_by;
        let horizon = Horizon::of(&link, acknowledged, follows);
        let mut feed = Feed::new(&self.parts, &self.metrics, confirmed, acknowledged, stored);
        feed.flight.in_transactions(batch);
        feed.flight.repeats = Repeats::new(&self.parts.relay, horizon);
        let (server, ended, mut watchers) = (ServerLsn::default(), stop.child_token(), JoinSet::new());
        let (mut slot_watcher, lost) = self.watch_slot(&link, server.clone(), stop.child_token());
        watchers.spawn(watch_kafka(Arc::clone(&self.parts), ended.clone()));
        watchers.spawn(heartbeat::act(Arc::clone(&self.parts), tls.clone(), ended.clone()));
        self.status.up(Component::Slot, Instant::now());
        self.status.enter(Phase::Streaming);
        let mut session = Session::new(&self.parts, link, &mut feed, &self.status, &self.metrics, server);
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
        // The next session must not start while records of this one are on their way: they would overtake each other.
        let gone = self.settle(&mut feed, outcome.is_err(), lost, stop).await;
        slot_watcher.shutdown().await;
        memory.remember(origin, confirmed, &feed);
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
            told: self.told.clone(),
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
            outcome = session.stream(stop) => outcome,
            () = overdue => {
                return Err(Error::Undrained { records: session.feed.flight.window().records(), within });
            }
        };
        match outcome {
            Err(error) if error.class() == Class::Definite || matches!(error, Error::Kafka(_)) => {
                Err(self.after_failure(session, error).await)
            }
            outcome => outcome,
        }
    }

    /// Decides whether a failed session is followed by another.
    async fn endure(&self, error: Error, memory: &mut Memory, stop: &CancellationToken) -> Result<(), Error> {
        if error.is_condemned() && !stop.is_cancelled() {
            self.metrics.reconnect(Peer::Kafka);
            return self.mend(&error).await;
        }
        let unwritten = error.is_unwritten();
        let beyond_mending = error.class() != Class::Transient
            || error.is_condemned()
            || matches!(error, Error::Kafka(_)) && !unwritten && !error.is_of_transactions();
        let in_vain = error.is_garbled() && memory.fruitless > GARBLED_RETRIES_MAX
            || unwritten && memory.fruitless > UNWRITTEN_RETRIES_MAX;
        // A stop does not wait for what is on its way, and a new producer must.
        if beyond_mending
            || in_vain
            || memory.is_fenced_again(&error, Instant::now())
            || self.exhausted(memory)
            || error.wants_new_producer() && stop.is_cancelled()
        {
            return Err(error);
        }
        self.metrics.reconnect(if matches!(error, Error::Kafka(_)) { Peer::Kafka } else { Peer::Postgres });
        self.mend(&error).await?;
        let pause = memory.backoff.next(fastrand::f64());
        tokio::select! {
            () = stop.cancelled() => {}
            () = time::sleep(pause) => {}
        }
        Ok(())
    }

    /// Tells what has failed. A producer that said what may not be so is replaced; nothing of it is on its way any more.
    async fn mend(&self, error: &Error) -> Result<(), Error> {
        // In transactions each session begins with a new producer.
        if !error.wants_new_producer() || error.is_of_transactions() {
            let peer = if error.is_of_transactions() { Component::Kafka } else { Component::Postgres };
            self.status.down(peer, chain(error), Instant::now());
            return Ok(());
        }
        if error.is_condemned() {
            tracing::info!("a new producer goes on from the slot after a record that Kafka refused");
        } else {
            tracing::warn!(error = chain(error), "a new producer sends it again, and what came behind it");
        }
        let parts = Arc::clone(&self.parts);
        // Ending the old one waits for its threads.
        let renewed = tokio::task::spawn_blocking(move || parts.producer.renew()).await;
        renewed.unwrap_or_else(|_| Err(kafka::Error::Fatal("it cannot be replaced".to_owned())))?;
        Ok(())
    }

    fn exhausted(&self, memory: &Memory) -> bool {
        self.parts.relay.retries_max.is_some_and(|most| memory.backoff.attempts() > most)
    }

    fn tell_assumptions(&self, link: &Link, memory: &mut Memory) {
        if !std::mem::replace(&mut memory.told_assumptions, true) {
            for assumption in &link.capture.assumptions {
                tracing::warn!("{assumption}");
            }
        }
    }
}
