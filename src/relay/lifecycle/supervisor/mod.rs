//! One session after another: what opens them, what ends them, and what is tried again.

mod ending;
mod failing;
mod running;
mod starting;
mod stopping;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time::timeout;

use super::control::{Control, Target, TargetReceiver};
use super::memory::Memory;
use super::order::Between;
use super::retry::{STANDBY_INTERVAL, Step};
use crate::postgres::{self, TlsSetup};
use crate::relay::background::kafka_login;
use crate::relay::background::watcher::SlotWarnings;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position_store::Positions;
use crate::telemetry::{Metrics, Phase, Status};
use starting::Attempt;

/// Storage of the relay's progress.
struct Places<'p> {
    offsets: Option<&'p Offsets>,
    positions: Option<Positions>,
}

/// Receiver of the reason for which the slot is lost.
type Lost = mpsc::Receiver<postgres::Error>;

/// The relay: opens sessions, retries what can be retried, pauses and stops on command.
#[derive(Debug)]
pub struct Relay {
    parts: Arc<RelayParts>,
    status: Status,
    metrics: Metrics,
    slot_warnings: SlotWarnings,
    /// True if the next session needs new clients of Kafka.
    login_changed: AtomicBool,
}

impl Relay {
    /// Creates a relay without starting it.
    #[must_use]
    pub fn new(parts: Arc<RelayParts>, status: Status, metrics: Metrics) -> Self {
        let slot_warnings = SlotWarnings::nothing(parts.relay.guard);
        Self { parts, status, metrics, slot_warnings, login_changed: AtomicBool::new(false) }
    }

    /// Follows the commands of `control` until it stops, and then drains.
    ///
    /// # Errors
    /// When something fails that a retry cannot fix, or retries are used up, or the drain takes too long.
    pub async fn run(&self, control: &Control) -> Result<(), Error> {
        let poster = self.parts.notification_posts.as_ref().map(|posts| posts.start(self.metrics.clone()));
        let outcome = tokio::select! {
            biased;
            // The work.
            outcome = self.run_sessions(control.receiver()) => outcome,
            // Neither ends: they only report and request.
            () = self.watch_login(control) => Ok(()),
            () = self.parts.file_settings.watch(&self.status) => Ok(()),
        };
        if let Some(poster) = poster {
            poster.end().await;
        }
        self.status.enter(Phase::Stopped);
        outcome
    }

    /// Ends the session when Kafka's login has changed. It never ends.
    async fn watch_login(&self, control: &Control) {
        let replace_clients = || {
            self.login_changed.store(true, Ordering::Relaxed);
            control.set(Target::Restart);
        };
        kafka_login::watch(&self.parts, &self.status, replace_clients).await;
    }

    async fn run_sessions(&self, mut target: TargetReceiver) -> Result<(), Error> {
        let (tls, ()) = tokio::try_join!(self.read_tls(), self.reach_kafka(&target))?;
        if target.get() == Target::Stop {
            return Ok(());
        }
        let (offsets, mut memory) = (Offsets::new(&self.parts)?, Memory::default());
        let places = Places { offsets: offsets.as_ref(), positions: Positions::new(&self.parts)? };
        let outcome = self.run_until_stopped(&tls, &places, &mut memory, &mut target).await;
        self.store_stop(places.positions.as_ref(), &outcome, &target).await;
        let drained = !matches!(outcome, Err(Error::Undrained { .. }));
        let lasts = !self.parts.postgres.slot.drop_on_stop;
        let positions = places.positions;
        if !drained || !lasts {
            return outcome;
        }
        let is_stored = match offsets {
            // What is not ours is as far, when everything is acknowledged.
            Some(offsets) if memory.offset_is_ours => offsets.write(memory.offset).await,
            _ => true,
        };
        let has_ended = is_stored && memory.drained_whole && outcome.is_ok();
        if let Some(positions) = positions.filter(|_| has_ended) {
            positions.end().await;
        }
        outcome
    }

    async fn run_until_stopped(
        &self,
        tls: &TlsSetup,
        places: &Places<'_>,
        memory: &mut Memory,
        target: &mut TargetReceiver,
    ) -> Result<(), Error> {
        loop {
            target.begin();
            if self.login_changed.swap(false, Ordering::Relaxed) {
                self.use_changed_login().await;
            }
            match Between::of(target.get(), memory) {
                Between::End => return Ok(()),
                Between::Pause => {
                    self.pause(places, memory, target).await;
                    continue;
                }
                Between::Open => {}
            }
            self.status.enter(Phase::Connecting);
            let link = match self.open(tls, places, memory, target).await? {
                Attempt::Link(link) => link,
                Attempt::SnapshotOnly => {
                    self.rest(target).await;
                    return Ok(());
                }
                Attempt::TargetChanged => continue,
            };
            let outcome = self.run_session(*link, tls, places, memory, target).await;
            let Err(error) = outcome else { continue };
            let circumstances = self.circumstances(Step::Session, None, target);
            let pause = self.endure(error, circumstances, memory).await?;
            timeout(pause, target.ends_session()).await.ok();
        }
    }

    /// Pauses without any connection to PostgreSQL, so that another outboxd can have the slot and the server
    /// can be stopped. Continues as after a standby.
    async fn pause(&self, places: &Places<'_>, memory: &Memory, target: &TargetReceiver) {
        if let Some(offsets) = places.offsets.filter(|_| memory.offset_is_ours) {
            offsets.write(memory.offset.clone()).await;
        }
        self.wait_in_pause(target).await;
    }

    async fn wait_in_pause(&self, target: &TargetReceiver) {
        self.status.enter(Phase::Paused);
        while target.get() == Target::Pause {
            self.status.tick_idle(Instant::now());
            timeout(STANDBY_INTERVAL, target.ends_pause()).await.ok();
        }
        self.status.enter(Phase::Connecting);
    }

    /// Waits for a stop behind a snapshot that nothing follows. An outbox ends there. Change events wait
    /// idly, as Debezium's connector does: a program that restarts the process when it ends would send the
    /// rows once more.
    async fn rest(&self, target: &TargetReceiver) {
        if self.parts.route.changes().is_none() {
            return;
        }
        tracing::info!("the snapshot is complete and nothing follows: waiting for SIGTERM");
        self.status.enter(Phase::Paused);
        while target.get() != Target::Stop {
            self.status.tick_idle(Instant::now());
            timeout(STANDBY_INTERVAL, target.stops()).await.ok();
        }
    }
}
