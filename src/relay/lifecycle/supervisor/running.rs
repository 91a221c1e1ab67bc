//! One session: takes over, begins the feed, spawns the tasks beside it, streams, ends, and is remembered.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{Lost, Places, Relay};
use crate::postgres::TlsSetup;
use crate::relay::background::cleaner;
use crate::relay::background::heartbeat_query;
use crate::relay::background::signal_channels;
use crate::relay::background::watcher::{ServerLsn, SlotWatch, watch_kafka};
use crate::relay::delivery::exactly_once::Batch;
use crate::relay::error::Error;
use crate::relay::lifecycle::control::{Target, TargetReceiver};
use crate::relay::lifecycle::link::Link;
use crate::relay::lifecycle::memory::Memory;
use crate::relay::lifecycle::order::{AfterStream, Beginning, Ended, Inherited, Settling, begin_feed};
use crate::relay::lifecycle::session::{self, Session};
use crate::relay::lifecycle::takeover;
use crate::relay::pipeline::core::Core;
use crate::relay::pipeline::feed::Feed;
use crate::relay::pipeline::heartbeat::Pulse;
use crate::relay::pipeline::signals::Signals;
use crate::relay::pipeline::slot_xmin::SlotXmin;
use crate::relay::progress::position_store::Positions;
use crate::relay::time::clock::Now;
use crate::relay::time::liveness::alive;
use crate::signal::{Notification, SnapshotStatus};
use crate::telemetry::{Component, Phase};

/// Tasks beside a session.
struct Tasks {
    others: JoinSet<()>,
    /// The watcher of the slot, which runs until the next session may begin.
    slot: JoinSet<()>,
    lost: Lost,
    server: ServerLsn,
    stop: CancellationToken,
}

impl Relay {
    pub(super) async fn run_session(
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
        let beginning = Beginning { origin: link.origin.clone(), confirmed: link.confirmed };
        let follows_end = places.positions.as_ref().is_some_and(Positions::follows_end);
        let feed = self.feed(&mut link, batch, xmin.clone(), follows_end, memory);
        let mut tasks = self.spawn_tasks(&mut link, xmin, tls);
        self.status.up(Component::Slot, Instant::now());
        self.status.enter(Phase::Streaming);
        let now = Now::read();
        let feedback = session::feedback(&self.parts, &link, now);
        let mut core = Core::new(feed, feedback, Pulse::new(&self.parts, now.instant), now);
        core.positions = link.position.begin(self.parts.relay.shutdown_timeout);
        let server = tasks.server.clone();
        let session = Session::new(&self.parts, link, &mut core, &self.status, &self.metrics, server, tls);
        if let Some(offsets) = places.offsets {
            tasks.others.spawn(offsets.clone().keep(session.offset.subscribe(), tasks.stop.clone()));
        }
        let ended = self.drive(session, &mut tasks, target).await;
        if ended.has_failed() && target.get() == Target::Run {
            self.status.enter(Phase::Connecting);
        }
        let mut settling = Settling::begin(ended, &mut core, memory, Now::read());
        let gone = self.settle(&mut settling, &mut core, tasks.lost, target).await;
        tasks.slot.shutdown().await;
        let outcome = settling.end(&mut core, memory, beginning, Now::read());
        gone.map_or(outcome, |error| Err(error.into()))
    }

    /// Creates the feed of a session, with everything that is known before its first row.
    fn feed<'r>(
        &'r self,
        link: &mut Link,
        batch: Option<Batch>,
        xmin: Option<SlotXmin>,
        follows_end: bool,
        memory: &mut Memory,
    ) -> Feed<'r> {
        let Inherited { acknowledged, stored, follows_another, is_first } =
            Inherited::of(link.streamed(follows_end), memory);
        let last_commit = link.last_commit(stored.as_ref());
        let mut feed = Feed::new(&self.parts, &self.metrics, link.confirmed, acknowledged, stored);
        (feed.place.last_commit, feed.place.xmin) = (last_commit, xmin);
        begin_feed(&mut feed, batch, &self.parts.relay, link.repeat_range(follows_another));
        if is_first && !link.sent_snapshot && link.snapshot_after.is_none() {
            feed.notify(Notification::initial(SnapshotStatus::Skipped, Vec::new()), Now::read());
        }
        let snapshots = memory.snapshots(&link.origin, link.snapshots.take());
        feed.signals =
            Signals::new(&self.parts.relay, link.capture.names(), self.parts.tables.order(), snapshots);
        feed
    }

    fn spawn_tasks(&self, link: &mut Link, xmin: Option<SlotXmin>, tls: &TlsSetup) -> Tasks {
        let (parts, tls) = (|| Arc::clone(&self.parts), || tls.clone());
        let (server, stop, mut others) = (ServerLsn::default(), CancellationToken::new(), JoinSet::new());
        let (slot, lost) = self.watch_slot(link, server.clone(), stop.clone());
        if let Some(xmin) = xmin {
            others.spawn(xmin.watch(parts(), Arc::clone(&link.sql)));
        }
        others.spawn(watch_kafka(parts(), stop.clone()));
        if !link.is_standby {
            others.spawn(heartbeat_query::run(parts(), tls(), stop.clone()));
        }
        let hand = link.take_signals();
        others.spawn(signal_channels::read_file(parts(), tls(), hand.clone(), stop.clone()));
        others.spawn(signal_channels::read_topic(parts(), tls(), hand, stop.clone()));
        others.spawn(cleaner::run(
            parts(),
            tls(),
            self.status.clone(),
            self.metrics.clone(),
            link.capture.known.clone(),
            stop.clone(),
        ));
        Tasks { others, slot, lost, server, stop }
    }

    /// Streams to the end of the session, and closes its connection.
    async fn drive(&self, mut session: Session<'_, '_>, tasks: &mut Tasks, target: &TargetReceiver) -> Ended {
        let drained = self.stream_and_drain(&mut session, &tasks.stop, &mut tasks.lost, target).await;
        tasks.stop.cancel();
        tasks.others.shutdown().await;
        match drained {
            Ok(()) => {
                // What is dropped on purpose is not lost.
                tasks.slot.shutdown().await;
                Ended::finished(self.end_stream(session, target.get()).await)
            }
            Err(ended) => {
                // The connection goes before the wait for Kafka: the server may be waiting for us to leave.
                drop(session);
                ended
            }
        }
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
        lost: &mut Lost,
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
            // A stream that waits for Kafka is not read, and does not see that the server has closed it.
            Some(error) = lost.recv(), if !self.parts.postgres.recovers() => {
                return Err(Ended::Failed(error.into()));
            }
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
