//! The loop of a running stream: waits for the next event and passes it to the core, which decides.

use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time;

use super::control::TargetReceiver;
use super::link::{Link, SqlLoss};
use crate::postgres::TlsSetup;
use crate::relay::background::watcher::ServerLsn;
use crate::relay::capture::publication_guard::PublicationGuard;
use crate::relay::capture::resolver::Resolver;
use crate::relay::capture::standby::{ForwardedSignal, PromotionGuard};
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::pipeline::core::{Core, Drain, Draining, Ending, Event, Then, Turn, Wanted};
use crate::relay::pipeline::signals::Done;
use crate::relay::snapshot::asking::{PendingAnswer, answered, ask};
use crate::relay::snapshot::chunk_reader::{ChunkReader, PendingChunk};
use crate::relay::time::clock::Now;
use crate::replication::Feedback;
use crate::source_offset::SourceOffset;
use crate::telemetry::{Component, Metrics, Progress, Status};
use crate::wal::PgTimestamp;

/// Longest time for which the first position of a session waits for the first poll of the catalog. A poll takes milliseconds; one that
/// fails, or waits for a lock, must not let the slot grow.
const FIRST_POLL_MAX: Duration = Duration::from_secs(5);

/// One stream, from START_REPLICATION to its end: the core with its connections.
pub(in crate::relay) struct Session<'s, 'p> {
    parts: &'s RelayParts,
    pub(in crate::relay) link: Link,
    pub(in crate::relay) core: &'s mut Core<'p>,
    server: ServerLsn,
    status: &'s Status,
    /// Channel to the task that stores the offset periodically.
    pub(in crate::relay) offset: watch::Sender<Option<SourceOffset>>,
    sql_loss: SqlLoss,
    /// The first poll of the catalog has not ended yet.
    awaits_poll: bool,
    publication: PublicationGuard,
    promotion: PromotionGuard,
    resolver: Resolver<'s>,
    /// The question that the core waits for.
    answer: Option<PendingAnswer<'s>>,
    /// Reads chunks, when it is not at it.
    reader: Option<ChunkReader<'s>>,
    /// Chunk read in progress.
    chunk: Option<PendingChunk<'s>>,
    /// Notified once the forwarded signal is durable.
    keeps: Option<oneshot::Sender<()>>,
}

impl<'s, 'p> Session<'s, 'p> {
    pub(in crate::relay) fn new(
        parts: &'s Arc<RelayParts>,
        link: Link,
        core: &'s mut Core<'p>,
        status: &'s Status,
        metrics: &'s Metrics,
        server: ServerLsn,
        tls: &'s TlsSetup,
    ) -> Self {
        core.positions.delay(Instant::now() + FIRST_POLL_MAX);
        let publication =
            PublicationGuard::watch(parts, &link.sql, &link.capture, status, link.snapshot_after.is_some());
        let promotion = PromotionGuard::watch(&link.sql, link.is_standby);
        let resolver = Resolver::new(parts, &link.sql, &link.capture, status, metrics);
        let offset = watch::Sender::new(None);
        let reads = core.feed.signals.is_some();
        let reader = reads.then(|| ChunkReader::new(parts, tls, &link.sql, link.is_standby));
        Self {
            parts,
            link,
            core,
            server,
            status,
            offset,
            sql_loss: SqlLoss::default(),
            awaits_poll: true,
            publication,
            promotion,
            resolver,
            answer: None,
            reader,
            chunk: None,
            keeps: None,
        }
    }

    /// Streams until the target is another or a snapshot is due, then until everything is acknowledged and confirmed.
    ///
    /// # Errors
    /// When the stream breaks, or a row cannot be sent; or when rows are not in the stream, whatever else has ended it.
    pub(in crate::relay) async fn stream(&mut self, target: &TargetReceiver) -> Result<(), Error> {
        let outcome = self.take_turns(target).await;
        if outcome.is_err() {
            self.publication.check()?;
        }
        outcome
    }

    async fn take_turns(&mut self, target: &TargetReceiver) -> Result<(), Error> {
        let mut event = Event::None;
        loop {
            let now = Now::read();
            if self.core.is_tick_due(now) {
                self.sql_loss.check(&self.link.sql, now.instant)?;
                self.publication.check()?;
                self.promotion.check()?;
                self.store_captured();
            }
            self.link.position.collect(&mut self.core.positions);
            if self.keeps.is_some() && self.core.has_stored_signal() {
                self.keeps.take().map(|keeps| keeps.send(()).ok());
            }
            let wanted = if self.has_caught_up() { Wanted::Drain } else { target.wanted() };
            if wanted == Wanted::Drain {
                self.store_captured();
            }
            let turn = self.core.turn(now, mem::take(&mut event), wanted, &mut self.link.stream)?;
            self.report(&turn, now);
            if let Some(due) = turn.store {
                self.link.position.write(due, &mut self.core.positions);
            }
            if let Some(need) = turn.need {
                self.answer = Some(ask(&self.resolver, need));
            }
            if let Some((task, reader)) = turn.task.and_then(|task| Some((task, self.reader.take()?))) {
                self.chunk = Some(reader.begin(task));
            }
            if let Some(update) = &turn.update {
                self.link.stream.update(update).await?;
            }
            event = match turn.then {
                Then::Ended => return Ok(()),
                then @ Then::Wait { .. } => self.wait(then, target, wanted).await?,
            };
        }
    }

    /// Returns whether the stream has come to where it ends for a snapshot.
    fn has_caught_up(&self) -> bool {
        self.link.snapshot_after.is_some_and(|lsn| self.core.feedback.confirmed() >= lsn)
    }

    /// Drains after a failure: waits for records in flight and confirms what was acknowledged before the
    /// failure, so that a restart repeats as little as possible. Returns the cause of the failure, if it is
    /// known.
    pub(in crate::relay) async fn drain(&mut self, mut ending: Ending) -> Option<Error> {
        let mut is_connected = true;
        loop {
            self.store_captured();
            self.link.position.collect(&mut self.core.positions);
            let now = Now::read();
            let Ok(Drain { update, store, then, .. }) = ending.turn(self.core, now) else { break };
            if let Some(due) = store {
                self.link.position.write(due, &mut self.core.positions);
            }
            // Without PostgreSQL the records in flight have to be reported, or given up, all the same.
            if let Some(update) = update.filter(|_| is_connected) {
                is_connected = self.link.stream.update(&update).await.is_ok();
            }
            match then {
                Draining::Wait => {}
                Draining::Purge => self.parts.producer.purge(),
                Draining::Done => break,
                Draining::Late => {
                    self.report_late();
                    break;
                }
            }
            tokio::select! {
                biased;
                () = self.parts.producer.deliveries().arrived() => {}
                () = time::sleep_until(ending.wake_at(self.core, now).into()) => {}
            }
        }
        ending.cause(self.core, Now::read())
    }

    /// Lets the first position be stored, and so confirmed: the poll has found what the publication lacked before this session. No
    /// cleanup may take rows for sent that it finds to be missing.
    fn release_positions(&mut self) {
        self.awaits_poll = false;
        self.store_captured();
        self.core.positions.release();
    }

    /// Lets the position be written again if what it has of the tables has changed: a suspicion, or how they are published.
    fn store_captured(&mut self) {
        if self.link.capture.known.take_unstored() {
            self.core.positions.write_again();
        }
    }

    fn report_late(&self) {
        let flight = &self.core.feed.out.flight;
        tracing::warn!(
            records = flight.window().records(),
            confirmed = %flight.frontier(),
            within_s = self.parts.relay.shutdown_timeout.as_secs_f64(),
            "Kafka did not acknowledge everything within outboxd.shutdown.timeout.ms after the failure: \
             unconfirmed rows are sent again at the next start"
        );
    }

    /// Waits for what the next turn is about.
    async fn wait(&mut self, then: Then, target: &TargetReceiver, wanted: Wanted) -> Result<Event, Error> {
        let Then::Wait { reads, answers, rests_until, until } = then else { return Ok(Event::None) };
        let rests = rests_until.is_some_and(|until| Instant::now() < until);
        if reads && rests {
            self.link.stream.rest()?;
        }
        let reports = !(reads && rests) || self.core.feed.out.flight.gathers();
        tokio::select! {
            biased;
            // 0: comes once, and positions wait for it.
            () = self.publication.first_poll(), if self.awaits_poll => {
                self.release_positions();
                Ok(Event::None)
            }
            // 1: acknowledgements make room and let the server throw WAL away. They can wait for the end of a rest.
            () = self.parts.producer.deliveries().arrived(), if reports => Ok(Event::None),
            // 2: a full window stops the reading; updates go on.
            read = self.link.stream.fill(), if reads && !rests => Ok(Event::Read(read?)),
            // 3: what a row waited for has arrived, and the row continues.
            answer = answered(&mut self.answer), if answers => {
                self.answer = None;
                Ok(Event::Answer(answer))
            }
            // 4: a chunk is read, or its watermark is written.
            (reader, done) = chunk(&mut self.chunk) => {
                (self.chunk, self.reader) = (None, Some(reader));
                Ok(Event::Done(done))
            }
            // 5: a signal that a standby does not have in its stream.
            Some(ForwardedSignal { document, kept }) = handed(&mut self.link.handed), if self.keeps.is_none() => {
                self.keeps = Some(kept);
                Ok(Event::Signal(document))
            }
            // 6: a stop, a pause or a restart.
            () = target.ends_session(), if wanted == Wanted::Stream => Ok(Event::None),
            // 7: the walsender must get a status update, and the status page its figures.
            () = time::sleep_until(until.into()) => Ok(Event::None),
        }
    }

    fn report(&self, turn: &Turn, now: Now) {
        match &turn.obstacle {
            Some(reason) => self.status.down(Component::Kafka, reason.as_str(), now.instant),
            None if turn.ticked => self.status.up(Component::Kafka, now.instant),
            None => {}
        }
        if turn.ticked {
            self.status.tick(self.progress(), now.instant);
            self.report_offset(now);
        }
    }

    /// Reports the position at which the session has ended.
    pub(in crate::relay) fn report_end(&self) {
        self.status.tick(self.progress(), Instant::now());
    }

    fn progress(&self) -> Progress {
        let Core { feed, feedback, .. } = &*self.core;
        let received = feedback.last_received();
        Progress {
            received,
            frontier: feed.out.flight.frontier(),
            stored: self.core.positions.stored(),
            position_waits: self.core.positions.waits_since(),
            confirmed: feedback.confirmed(),
            server: self.server.get().max(received),
            oldest_commit: feed.out.flight.oldest_commit().and_then(system_time),
            oldest_unacknowledged: feed.out.flight.activity.oldest_unacknowledged,
            kafka_silent_since: feed.out.flight.activity.silent_since,
            last_event: feed.out.flight.activity.last_event.map(Now::system_time),
            inflight_events: feed.out.flight.window().records(),
            inflight_bytes: feed.out.flight.window().bytes(),
            events: feed.out.flight.activity.events,
        }
    }

    fn report_offset(&self, now: Now) {
        let offset = self.core.feed.offset(now);
        self.offset.send_if_modified(|told| {
            let changed = *told != offset;
            *told = offset;
            changed
        });
    }
}

/// Creates the feedback to the server of this link, with its interval.
pub(in crate::relay) fn feedback(parts: &RelayParts, link: &Link, now: Now) -> Feedback {
    let interval = status_interval(parts.postgres.status_interval, link.wal_sender_timeout_ms);
    let server_timeout = Duration::from_millis(u64::try_from(link.wal_sender_timeout_ms).unwrap_or_default());
    Feedback::new(interval, link.confirmed, now.instant).with_patience(server_timeout)
}

/// Returns the interval of status updates. The server closes the connection to a client that is silent for
/// `wal_sender_timeout`; a third of it leaves room for delays.
pub(in crate::relay) fn status_interval(wanted: Duration, wal_sender_timeout_ms: i64) -> Duration {
    match u64::try_from(wal_sender_timeout_ms) {
        Ok(timeout_ms) if timeout_ms > 0 => wanted.min(Duration::from_millis((timeout_ms / 3).max(1))),
        _ => wanted,
    }
}

/// Waits for what the reader of chunks is at, for ever when it is at nothing. Cancel-safe.
async fn chunk<'s>(pending: &mut Option<PendingChunk<'s>>) -> (ChunkReader<'s>, Done) {
    match pending {
        Some(pending) => pending.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits for the next forwarded signal. Cancel-safe.
async fn handed(receiver: &mut Option<mpsc::Receiver<ForwardedSignal>>) -> Option<ForwardedSignal> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => std::future::pending().await,
    }
}

fn system_time(time: PgTimestamp) -> Option<SystemTime> {
    let us = u64::try_from(time.unix_us()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_micros(us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_gets_three_status_updates_within_its_patience() {
        let wanted = Duration::from_secs(10);
        let expected =
            [(0, 10_000), (-1, 10_000), (60_000, 10_000), (30_000, 10_000), (3_000, 1_000), (1, 1)];
        for (timeout_ms, interval_ms) in expected {
            assert_eq!(
                status_interval(wanted, timeout_ms),
                Duration::from_millis(interval_ms),
                "{timeout_ms}"
            );
        }
    }
}
