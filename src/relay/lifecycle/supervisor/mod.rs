//! One session after another: what opens them, what ends them, and what is tried again.

mod ending;
mod failing;
mod starting;

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::control::{Control, Target, TargetReceiver};
use super::link::Link;
use super::memory::Memory;
use super::order::{AfterStream, Between, Ended, Inherited, Settling};
use super::retry::{STANDBY_INTERVAL, Step};
use super::session::{self, Session};
use super::takeover;
use crate::postgres::{self, TlsSetup};
use crate::relay::background::cleaner;
use crate::relay::background::heartbeat_query;
use crate::relay::background::signal_channels;
use crate::relay::background::watcher::{ServerLsn, SlotWarnings, SlotWatch, watch_kafka};
use crate::relay::delivery::exactly_once::Batch;
use crate::relay::delivery::repeats::Repeats;
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::pipeline::core::Core;
use crate::relay::pipeline::feed::Feed;
use crate::relay::pipeline::heartbeat::Pulse;
use crate::relay::pipeline::signals::Signals;
use crate::relay::pipeline::slot_xmin::SlotXmin;
use crate::relay::progress::offsets::Offsets;
use crate::relay::progress::position_store::Positions;
use crate::relay::time::clock::Now;
use crate::relay::time::liveness::alive;
use crate::signal::{Notification, SnapshotStatus};
use crate::telemetry::{Component, Metrics, Phase, Status};
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
}

impl Relay {
    /// Creates a relay without starting it.
    #[must_use]
    pub fn new(parts: Arc<RelayParts>, status: Status, metrics: Metrics) -> Self {
        let slot_warnings = SlotWarnings::nothing(parts.relay.guard);
        Self { parts, status, metrics, slot_warnings }
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
            // Never ends: it only reports.
            () = self.parts.file_settings.watch(&self.status) => Ok(()),
        };
        if let Some(poster) = poster {
            poster.end().await;
        }
        self.status.enter(Phase::Stopped);
        outcome
    }

    async fn run_sessions(&self, mut target: TargetReceiver) -> Result<(), Error> {
        let (tls, ()) = tokio::try_join!(self.read_tls(), self.reach_kafka(&target))?;
        if target.get() == Target::Stop {
            return Ok(());
        }
        let (offsets, mut memory) = (Offsets::new(&self.parts)?, Memory::default());
        let places = Places { offsets: offsets.as_ref(), positions: Positions::new(&self.parts)? };
        let outcome = self.run_until_stopped(&tls, &places, &mut memory, &mut target).await;
        if let (Some(positions), Err(Error::Postgres(postgres::Error::Unpublished { problem, cure }))) =
            (&places.positions, &outcome)
        {
            positions.stop(problem.clone(), cure.clone()).await;
        }
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

    async fn run_session(
        &self,
        mut link: Link,
        tls: &TlsSetup,
        places: &Places<'_>,
        memory: &mut Memory,
        target: &TargetReceiver,
    ) -> Result<(), Error> {
        self.delay_stream(&mut link, target).await?;
        let xmin = SlotXmin::first(&self.parts, &link.sql).await?;
        let batch = match self.take_over(&mut link, target).await {
            Err(_) if target.get() != Target::Run => return Ok(()),
            batch => batch?,
        };
        let follows_end = places.positions.as_ref().is_some_and(Positions::follows_end);
        let Inherited { acknowledged, stored, follows_another, is_first } =
            Inherited::of(link.streamed(follows_end), memory);
        let (origin, confirmed) = (link.origin.clone(), link.confirmed);
        let repeat_range = link.repeat_range(follows_another);
        let last_commit = link.last_commit(stored.as_ref());
        let mut feed = Feed::new(&self.parts, &self.metrics, confirmed, acknowledged, stored);
        feed.last_commit = last_commit;
        feed.xmin.clone_from(&xmin);
        feed.out.flight.in_transactions(batch);
        feed.out.dispatch.repeats = Repeats::new(&self.parts.relay, repeat_range);
        feed.start();
        if is_first && !link.sent_snapshot {
            feed.notify(Notification::initial(SnapshotStatus::Skipped, Vec::new()), Now::read());
        }
        let snapshots = memory.snapshots(&origin, link.snapshots.take());
        feed.signals =
            Signals::new(&self.parts.relay, link.capture.names(), self.parts.tables.order(), snapshots);
        let (server, stop, mut watchers) = (ServerLsn::default(), CancellationToken::new(), JoinSet::new());
        let (mut slot_watcher, lost) = self.watch_slot(&link, server.clone(), stop.clone());
        if let Some(xmin) = xmin {
            watchers.spawn(xmin.watch(Arc::clone(&self.parts), Arc::clone(&link.sql)));
        }
        watchers.spawn(watch_kafka(Arc::clone(&self.parts), stop.clone()));
        if !link.is_standby {
            watchers.spawn(heartbeat_query::run(Arc::clone(&self.parts), tls.clone(), stop.clone()));
        }
        let parts = &self.parts;
        let hand = link.take_signals();
        watchers.spawn(signal_channels::read_file(
            Arc::clone(parts),
            tls.clone(),
            hand.clone(),
            stop.clone(),
        ));
        watchers.spawn(signal_channels::read_topic(Arc::clone(parts), tls.clone(), hand, stop.clone()));
        watchers.spawn(cleaner::run(
            Arc::clone(parts),
            tls.clone(),
            (self.status.clone(), self.metrics.clone()),
            link.capture.known.clone(),
            stop.clone(),
        ));
        self.status.up(Component::Slot, Instant::now());
        self.status.enter(Phase::Streaming);
        let now = Now::read();
        let feedback = session::feedback(&self.parts, &link, now);
        let mut core = Core::new(feed, feedback, Pulse::new(&self.parts, now.instant), now);
        core.positions = link.position.begin(self.parts.relay.shutdown_timeout);
        let mut session =
            Session::new(&self.parts, link, &mut core, &self.status, &self.metrics, server, tls);
        if let Some(offsets) = places.offsets {
            watchers.spawn(offsets.clone().keep(session.offset.subscribe(), stop.clone()));
        }
        let drained = self.stream_and_drain(&mut session, &stop, target).await;
        stop.cancel();
        watchers.shutdown().await;
        let ended = match drained {
            Ok(()) => {
                // What is dropped on purpose is not lost.
                slot_watcher.shutdown().await;
                Ended::finished(self.end_stream(session, target.get()).await)
            }
            Err(ended) => {
                // The connection goes before the wait for Kafka: the server may be waiting for us to leave.
                drop(session);
                ended
            }
        };
        if ended.has_failed() && target.get() == Target::Run {
            self.status.enter(Phase::Connecting);
        }
        let settling = Settling::begin(ended, &mut core, memory, Now::read());
        let gone = self.settle(&settling, &mut core, lost, target).await;
        slot_watcher.shutdown().await;
        let outcome = settling.end(&mut core, memory, (origin, confirmed), Now::read());
        gone.map_or(outcome, |error| Err(error.into()))
    }

    /// Takes the Kafka transactions over. Blocking calls are cancelled when the command changes, and waited
    /// for.
    async fn take_over(&self, link: &mut Link, target: &TargetReceiver) -> Result<Option<Batch>, Error> {
        let told = CancellationToken::new();
        let mut taking = std::pin::pin!(alive(&self.status, takeover::take_over(&self.parts, link, &told)));
        tokio::select! {
            biased;
            batch = &mut taking => return batch,
            () = target.ends_session() => told.cancel(),
        }
        taking.await
    }

    /// Starts the task that watches the slot until the next session may begin. Returns it, and where it reports a lost slot.
    fn watch_slot(&self, link: &Link, server: ServerLsn, ended: CancellationToken) -> (JoinSet<()>, Lost) {
        let (sender, lost) = mpsc::channel(1);
        let watch = SlotWatch {
            sql: Arc::clone(&link.sql),
            parts: Arc::clone(&self.parts),
            metrics: self.metrics.clone(),
            status: self.status.clone(),
            server,
            warnings: self.slot_warnings.clone(),
            lost: sender,
            ended,
        };
        let mut watcher = JoinSet::new();
        watcher.spawn(watch.watch());
        (watcher, lost)
    }

    /// Streams until the session has drained, or has ended without that.
    async fn stream_and_drain(
        &self,
        session: &mut Session<'_, '_>,
        stop: &CancellationToken,
        target: &TargetReceiver,
    ) -> Result<(), Ended> {
        let within = self.parts.relay.shutdown_timeout;
        let overdue = async {
            target.ends_session().await;
            self.status.enter(Phase::Draining);
            stop.cancel();
            // A stop has all the time, also when it comes while a pause drains.
            if timeout(within, target.stops()).await.is_ok() {
                sleep(within).await;
            }
        };
        let outcome = tokio::select! {
            biased;
            // First, so that a stream that never waits cannot keep a stop from ending.
            () = overdue => None,
            outcome = session.stream(target) => Some(outcome),
        };
        let after = match outcome {
            Some(outcome) => AfterStream::of(outcome),
            None => {
                let records = session.core.feed.out.flight.window().records();
                AfterStream::overdue(target.get() == Target::Stop, records, within)
            }
        };
        match after {
            AfterStream::Finish => Ok(()),
            AfterStream::Drain(error) => Err(Ended::Failed(self.after_failure(session, error).await)),
            AfterStream::HangUp(ended) => {
                if let Ended::Late = ended {
                    self.report_late(session);
                }
                Err(ended)
            }
        }
    }

    fn report_late(&self, session: &Session<'_, '_>) {
        tracing::warn!(
            records = session.core.feed.out.flight.window().records(),
            within_s = self.parts.relay.shutdown_timeout.as_secs_f64(),
            "Kafka did not acknowledge everything within outboxd.shutdown.timeout.ms: releasing the \
             slot and waiting for the rest"
        );
    }
}
