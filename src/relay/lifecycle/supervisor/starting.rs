//! The steps before a session: waits for Kafka and for the slot, and opens a link, with retries.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{Places, Relay};
use crate::kafka;
use crate::postgres::{self, SlotHolder, TlsSetup};
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Target, TargetReceiver};
use crate::relay::lifecycle::link::Link;
use crate::relay::lifecycle::memory::Memory;
use crate::relay::lifecycle::opening::Opened;
use crate::relay::lifecycle::order::react_to_holder;
use crate::relay::lifecycle::retry::{Next, Step};
use crate::relay::lifecycle::slot_start::Opening;
use crate::relay::lifecycle::takeover;
use crate::relay::time::delay;
use crate::relay::time::liveness::alive;
use crate::telemetry::{Component, Holder, Phase};

/// Timeout of one request to the brokers while the first of them is awaited.
const KAFKA_QUESTION: Duration = Duration::from_millis(500);

/// Result of an opening.
pub(super) enum Attempt {
    /// A stream.
    Link(Box<Link>),
    /// `snapshot.mode=initial_only`: the snapshot is sent and nothing is to follow.
    SnapshotOnly,
    /// The target has become another.
    TargetChanged,
}

/// Steps before a session.
impl Relay {
    /// Reads the certificates in a thread of its own: OpenSSL takes as long for those of the system as a
    /// broker takes to respond.
    pub(super) async fn read_tls(&self) -> Result<TlsSetup, Error> {
        let parts = Arc::clone(&self.parts);
        let reading = tokio::task::spawn_blocking(move || TlsSetup::new(&parts.postgres.server));
        let read = reading.await.map_err(|aborted| postgres::Error::Unexpected {
            message: aborted.to_string(),
            doing: "reading the certificates",
        })?;
        Ok(read?)
    }

    /// Waits for Kafka before PostgreSQL is opened: a slot that is held while nothing can be sent only keeps
    /// it from others.
    pub(super) async fn reach_kafka(&self, target: &TargetReceiver) -> Result<(), Error> {
        let mut start = Instant::now();
        while target.get() != Target::Stop {
            if target.get() == Target::Pause {
                self.wait_in_pause(target).await;
                start = Instant::now();
                continue;
            }
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
                    self.parts.postgres.slot.peer.learn_target(&cluster_id);
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
            self.status.down_by(Component::Kafka, &error, Instant::now());
            self.status.tick_idle(Instant::now());
        }
        Ok(())
    }

    /// Opens a link, trying again as long as that can help.
    pub(super) async fn open(
        &self,
        tls: &TlsSetup,
        places: &Places<'_>,
        memory: &mut Memory,
        target: &TargetReceiver,
    ) -> Result<Attempt, Error> {
        let first_start = memory.acknowledged.is_none();
        let deadline =
            first_start.then_some(self.parts.relay.startup_timeout).flatten().map(|d| Instant::now() + d);
        loop {
            let (parts, status, metrics) = (&self.parts, &self.status, &self.metrics);
            let known = memory.known();
            let captured = &memory.captured;
            let (offsets, positions) = (places.offsets, places.positions.as_ref());
            let (known, saw_slot) = (known.as_ref(), memory.saw_slot);
            let snapshot_after = memory.snapshot_after;
            let opening = Opening {
                parts,
                tls,
                status,
                metrics,
                offsets,
                positions,
                saw_slot,
                known,
                snapshot_after,
                captured,
            };
            let outcome = tokio::select! {
                biased;
                // 1: a stop or a pause does not wait for the start.
                () = target.ends_session() => {
                    // A snapshot may have been broken off.
                    if target.get() != Target::Stop {
                        self.replace_producer().await?;
                    }
                    return Ok(Attempt::TargetChanged);
                }
                // 2: the start itself.
                outcome = alive(status, opening.open()) => outcome,
            };
            let pause = match outcome {
                Ok(Opened::SnapshotOnly) => return Ok(Attempt::SnapshotOnly),
                Ok(Opened::Link(link)) => {
                    memory.reached_primary = true;
                    memory.snapshot_after = link.snapshot_after;
                    self.report_assumptions(&link, memory);
                    return Ok(Attempt::Link(link));
                }
                Err(Error::Postgres(postgres::Error::SlotActive(holder))) => {
                    self.wait_for_slot(holder, memory, deadline)?
                }
                Err(error) => {
                    let circumstances = self.circumstances(Step::Opening, time_left(deadline), target);
                    self.endure(error, circumstances, memory).await?
                }
            };
            self.status.tick_idle(Instant::now());
            if timeout(pause, target.ends_session()).await.is_ok() {
                return Ok(Attempt::TargetChanged);
            }
        }
    }

    /// Waits for `streaming.delay.ms` between a snapshot and the stream. Sends status updates to the server
    /// meanwhile, which keep the connection alive.
    pub(super) async fn delay_stream(&self, link: &mut Link, target: &TargetReceiver) -> Result<(), Error> {
        if !link.sent_snapshot {
            return Ok(());
        }
        let length = self.parts.postgres.snapshot.streaming_delay;
        let waiting = pin!(delay::wait(length, "streaming.delay.ms", &self.status));
        tokio::select! {
            biased;
            // A stop does not wait for it: the session that begins now ends at once.
            () = target.ends_session() => Ok(()),
            waited = takeover::keeping_alive(&self.parts, link, waiting) => Ok(waited?),
        }
    }

    /// Handles a held slot: stands by for another instance of this outboxd, retries up to `slot.max.retries`
    /// if another program has it.
    fn wait_for_slot(
        &self,
        holder: SlotHolder,
        memory: &mut Memory,
        deadline: Option<Instant>,
    ) -> Result<Duration, Error> {
        let retry = self.parts.postgres.slot.retry;
        match react_to_holder(&holder, retry, time_left(deadline), fastrand::f64(), memory) {
            Next::StandBy { pause } => {
                self.report_overtaken(memory, &holder);
                self.status.up(Component::Slot, Instant::now());
                let holder = Holder { pid: holder.pid, application: holder.application };
                self.status.enter(Phase::StandingBy(holder));
                Ok(pause)
            }
            Next::Retry { pause, .. } => {
                self.status.down(Component::Slot, holder.to_string(), Instant::now());
                Ok(pause)
            }
            Next::Stop | Next::Lasts | Next::NewProducer => Err(postgres::Error::SlotActive(holder).into()),
        }
    }

    /// Warns that records that were in flight while this process stood still are written behind what the
    /// other instance has sent since. Kafka rejects them with exactly once only.
    fn report_overtaken(&self, memory: &mut Memory, holder: &SlotHolder) {
        if !std::mem::take(&mut memory.stood_still) || self.parts.relay.transactions.is_some() {
            return;
        }
        let warning = "this process was frozen with records in flight while another instance took over the slot: they may be written behind \
                       newer ones of the same keys. To fix: send a snapshot of the tables (signal execute-snapshot), and restart this process. \
                       outboxd.delivery.guarantee=exactly_once prevents it"
            .to_owned();
        if self.status.warn(warning.clone()) {
            tracing::warn!(holder = holder.pid, "{warning}");
        }
    }

    fn report_assumptions(&self, link: &Link, memory: &mut Memory) {
        if !std::mem::replace(&mut memory.told_assumptions, true) {
            let capture = &link.capture;
            for assumption in &capture.assumptions {
                if capture.twins.contains(assumption) {
                    tracing::info!("{assumption}");
                } else {
                    tracing::warn!("{assumption}");
                }
            }
        }
    }
}

fn time_left(deadline: Option<Instant>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
}
