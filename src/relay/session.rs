use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;
use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::exactly_once::Urgency;
use super::feed::{Feed, Wish, unix_us};
use super::heartbeat::Pulse;
use super::intake::{self, Reading, Taken};
use super::link::{Link, resolve};
use super::needs::{Awaiting, Met, Waiting, met};
use super::publication_guard::PublicationGuard;
use super::supervisor::RelayParts;
use super::watcher::ServerLsn;
use crate::postgres;
use crate::registry;
use crate::replication::Feedback;
use crate::source_offset::SourceOffset;
use crate::telemetry::{Component, Metrics, Progress, Status};
use crate::wal::PgTimestamp;
use crate::wire::READ_BYTES;

/// How often the status is told while nothing happens, and at most while much does.
pub(super) const TICK: Duration = Duration::from_millis(500);

/// A read of this many bytes means that the server has more: we are behind.
const BEHIND_BYTES: usize = 16 * 1024;

/// How long the next read waits while we are behind. The walsender sends each message with a system call of its own, and
/// a reader that wakes for each of them slows it down; one that lets them gather gets more in less time.
const NAP: Duration = Duration::from_millis(4);

/// How long the stream may outlive the SQL connection. A fast shutdown ends the SQL connection at once and then waits
/// for walsenders until all is confirmed, which never happens while Kafka is down: we must let the server stop.
const SQL_LOSS_GRACE: Duration = Duration::from_secs(3);

/// One stream, from START_REPLICATION to its end: the loop.
pub(super) struct Session<'s, 'p> {
    pub(super) parts: &'s RelayParts,
    pub(super) link: Link,
    pub(super) feed: &'s mut Feed<'p>,
    pub(super) feedback: Feedback,
    pub(super) server: ServerLsn,
    pub(super) status: &'s Status,
    metrics: &'s Metrics,
    /// Who stores the offset from time to time.
    pub(super) offset: watch::Sender<Option<SourceOffset>>,
    last_tick: Instant,
    pulse: Option<Pulse>,
    /// Until when the socket is left alone.
    nap: Option<Instant>,
    /// Since when the SQL connection is gone.
    sql_lost: Option<Instant>,
    publication: PublicationGuard,
    /// The row that waits for what it needs.
    awaiting: Option<Awaiting<'s>>,
}

impl<'s, 'p> Session<'s, 'p> {
    pub(super) fn new(
        parts: &'s RelayParts,
        link: Link,
        feed: &'s mut Feed<'p>,
        status: &'s Status,
        metrics: &'s Metrics,
        server: ServerLsn,
    ) -> Self {
        let now = Instant::now();
        let interval = status_interval(parts.postgres.status_interval, link.wal_sender_timeout_ms);
        let server_timeout =
            Duration::from_millis(u64::try_from(link.wal_sender_timeout_ms).unwrap_or_default());
        let feedback = Feedback::new(interval, link.confirmed, now).with_patience(server_timeout);
        let publication =
            PublicationGuard::watch(&parts.postgres.publication, &link.sql, &link.capture.tables);
        Self {
            parts,
            link,
            feed,
            feedback,
            server,
            status,
            metrics,
            offset: watch::Sender::new(None),
            last_tick: now,
            pulse: Pulse::new(parts, now),
            nap: None,
            sql_lost: None,
            publication,
            awaiting: None,
        }
    }

    /// Streams until told to stop, then until everything is acknowledged and confirmed.
    ///
    /// # Errors
    /// When the stream breaks, or a row cannot be sent.
    pub(super) async fn stream(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let mut reading = Reading::On;
        loop {
            reading = self.reading(reading, stop);
            // Reports first: they make room for messages that are in the buffer, for which nothing else would wake us.
            self.collect()?;
            self.pump(reading).await?;
            self.beat(reading)?;
            self.feed.flight.step(Instant::now(), self.urgency(reading))?;
            self.feedback.flushed(self.feed.flight.frontier());
            self.confirm().await?;
            if reading == Reading::Off && self.feed.flight.window().records() == 0 {
                return Ok(());
            }
            let waits = reading != Reading::Off && self.awaiting.is_some();
            let wants_input = reading != Reading::Off && !waits && self.feed.has_room();
            if !wants_input {
                // Whom we do not listen to is not silent.
                self.feedback.heard(Instant::now());
            }
            let napping = self.nap.is_some_and(|until| Instant::now() < until);
            let wake_at = self.wake_at().into();
            tokio::select! {
                biased;
                // 1: acknowledgements make room and let the server throw WAL away. They can wait for the end of a nap.
                () = self.parts.producer.deliveries().arrived(), if !(wants_input && napping) => {}
                // 2: a full window stops the reading; updates go on.
                read = self.link.stream.fill(), if wants_input && !napping => {
                    self.rest_after(read?);
                    self.feedback.heard(Instant::now());
                }
                // 3: what a row waited for is there, and the row goes on.
                answer = met(&mut self.awaiting), if waits => {
                    let wish = self.resume(answer)?;
                    self.grant(wish).await?;
                }
                // 4: a stop.
                () = stop.cancelled(), if reading == Reading::On => {}
                // 5: the walsender must hear from us, and the status must be told.
                () = time::sleep_until(wake_at) => {}
            }
        }
    }

    /// After a failure: waits for what is on its way and confirms what was acknowledged before the failure, so that a
    /// restart repeats as little as possible.
    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        loop {
            self.feed.flight.absorb()?;
            self.feed.flight.step(Instant::now(), Urgency::Now)?;
            self.feedback.flushed(self.feed.flight.frontier());
            self.confirm().await?;
            if self.feed.flight.is_settled() {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = self.parts.producer.deliveries().arrived() => {}
                () = time::sleep_until(self.wake_at().into()) => {}
            }
        }
    }

    /// A full read is followed by the next at once, a large one by a nap, a small one means that we have caught up.
    fn rest_after(&mut self, read: usize) {
        self.feed.behind = read >= BEHIND_BYTES;
        self.nap = (BEHIND_BYTES..READ_BYTES).contains(&read).then(|| Instant::now() + NAP);
    }

    /// How much a commit is wanted.
    const fn urgency(&self, reading: Reading) -> Urgency {
        match reading {
            Reading::Off => Urgency::Now,
            _ if self.feed.behind || self.awaiting.is_some() => Urgency::More,
            Reading::On | Reading::ToCommit => Urgency::Idle,
        }
    }

    fn reading(&self, reading: Reading, stop: &CancellationToken) -> Reading {
        let brief = self.awaiting.as_ref().is_none_or(|awaiting| awaiting.brief);
        reading.next(stop.is_cancelled(), self.feed.flight.in_transaction(), brief)
    }

    /// Takes every whole message that is in the buffer, while the window has room.
    async fn pump(&mut self, reading: Reading) -> Result<(), Error> {
        while reading != Reading::Off && self.awaiting.is_none() && self.feed.has_room() {
            let Some(message) = self.link.stream.buffered()? else { return Ok(()) };
            let wish = match intake::take(self.feed, &mut self.feedback, message)? {
                Taken::Keepalive => Wish::None,
                Taken::Message { lsn, wish } => {
                    self.link.stream.passed(lsn);
                    wish
                }
                Taken::Held { lsn, need, waiting } => {
                    self.awaiting = Some(Awaiting::new(waiting, need, self.parts, self.status));
                    self.link.stream.passed(lsn);
                    return Ok(());
                }
            };
            let committed = matches!(wish, Wish::Committed(_));
            self.grant(wish).await?;
            if committed && reading == Reading::ToCommit {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn grant(&mut self, wish: Wish) -> Result<(), Error> {
        match wish {
            Wish::None | Wish::Await(_) => {}
            Wish::Committed(_) => self.metrics.transactions(1),
            Wish::Describe(relation) => {
                let table = resolve(self.parts, &self.link.sql, &relation).await?;
                self.feed.describe(relation.oid, table);
            }
        }
        Ok(())
    }

    fn beat(&mut self, reading: Reading) -> Result<(), Error> {
        let Some(pulse) = self.pulse.as_mut().filter(|_| reading == Reading::On && self.awaiting.is_none())
        else {
            return Ok(());
        };
        let wish = pulse.poll(self.feed, Instant::now(), unix_us() / 1000)?;
        self.wait_if_needed(wish, || Waiting::Heartbeat);
        Ok(())
    }

    /// Takes what waited again; it may need something more.
    fn resume(&mut self, answer: Result<Met, registry::Error>) -> Result<Wish, Error> {
        let Some(Awaiting { waiting, .. }) = self.awaiting.take() else { return Ok(Wish::None) };
        match (answer, waiting) {
            (Ok(met), Waiting::Heartbeat) => self.feed.learn(met),
            (Ok(met), Waiting::Message { data, lsn }) => {
                let wish = intake::take_again(self.feed, &mut self.feedback, Some(met), (&data, lsn))?;
                return Ok(self.wait_if_needed(wish, || Waiting::Message { data, lsn }));
            }
            (Err(error), Waiting::Heartbeat) => return Err(error.into()),
            (Err(error), Waiting::Message { data, lsn }) => {
                self.feed.refuse(error)?;
                let wish = intake::take_again(self.feed, &mut self.feedback, None, (&data, lsn))?;
                return Ok(self.wait_if_needed(wish, || Waiting::Message { data, lsn }));
            }
        }
        Ok(Wish::None)
    }

    /// Asks for what is needed, if that is the wish.
    fn wait_if_needed(&mut self, wish: Wish, waiting: impl FnOnce() -> Waiting) -> Wish {
        let Wish::Await(need) = wish else { return wish };
        self.awaiting = Some(Awaiting::new(waiting(), need, self.parts, self.status));
        Wish::None
    }

    fn collect(&mut self) -> Result<(), Error> {
        let reports = self.feed.flight.collect()?;
        let now = Instant::now();
        match reports.obstacle() {
            Some(reason) => self.status.down(Component::Kafka, reason, now),
            None if self.last_tick + TICK <= now => self.status.up(Component::Kafka, now),
            None => {}
        }
        if self.last_tick + TICK <= now {
            self.tick(now);
            self.check_sql(now)?;
            self.check_silence(now)?;
            self.publication.check()?;
        }
        Ok(())
    }

    /// Ends a stream whose server does not answer any more: somewhere on the way the other half of the connection is lost.
    fn check_silence(&self, now: Instant) -> Result<(), Error> {
        if !self.feedback.is_silent(now) {
            return Ok(());
        }
        let source = std::io::ErrorKind::TimedOut.into();
        Err(postgres::Error::Broken { doing: "streaming: the server does not answer", source }.into())
    }

    /// Ends a stream that the server may only be keeping because it waits for us.
    fn check_sql(&mut self, now: Instant) -> Result<(), Error> {
        if !self.link.sql.is_closed() {
            return Ok(());
        }
        let lost = *self.sql_lost.get_or_insert(now);
        if now.saturating_duration_since(lost) < SQL_LOSS_GRACE {
            return Ok(());
        }
        let source = std::io::ErrorKind::ConnectionAborted.into();
        Err(postgres::Error::Broken { doing: "streaming: the SQL connection beside it was ended", source }
            .into())
    }

    async fn confirm(&mut self) -> Result<(), Error> {
        let clock = PgTimestamp::from_unix_us(unix_us());
        if let Some(update) = self.feedback.poll(Instant::now(), clock) {
            self.link.stream.update(&update).await?;
        }
        Ok(())
    }

    fn tick(&mut self, now: Instant) {
        self.last_tick = now;
        let received = self.feedback.last_received();
        let progress = Progress {
            received,
            flushed: self.feed.flight.frontier(),
            confirmed: self.feedback.confirmed(),
            server: self.server.get().max(received),
            oldest_commit: self.feed.flight.oldest_commit().and_then(system_time),
            oldest_unacknowledged: self.feed.flight.oldest_unacknowledged,
            last_event: self.feed.flight.last_event,
            inflight_events: self.feed.flight.window().records(),
            inflight_bytes: self.feed.flight.window().bytes(),
            events: self.feed.flight.events,
        };
        self.status.tick(progress, now);
        self.feed.flight.forget_old(now);
        self.tell_offset();
    }

    fn tell_offset(&self) {
        let offset = self.feed.offset();
        self.offset.send_if_modified(|told| {
            let changed = *told != offset;
            *told = offset;
            changed
        });
    }

    fn wake_at(&self) -> Instant {
        let regular = self.feedback.due().min(self.last_tick + TICK);
        let regular = self.pulse.as_ref().map_or(regular, |pulse| regular.min(pulse.due()));
        let regular = self.feed.flight.commit_due().map_or(regular, |due| regular.min(due));
        self.nap.filter(|until| *until > Instant::now()).map_or(regular, |until| regular.min(until))
    }
}

/// The server gives up on a client that is silent for `wal_sender_timeout`; a third of it leaves room for delays.
pub(super) fn status_interval(wanted: Duration, wal_sender_timeout_ms: i64) -> Duration {
    match u64::try_from(wal_sender_timeout_ms) {
        Ok(timeout_ms) if timeout_ms > 0 => wanted.min(Duration::from_millis((timeout_ms / 3).max(1))),
        _ => wanted,
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
    fn the_server_hears_from_us_three_times_within_its_patience() {
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
