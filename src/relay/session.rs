use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::time;
use tokio_util::sync::CancellationToken;

use super::Error;
use super::feed::{Feed, Wish, unix_us};
use super::link::{Link, resolve};
use super::supervisor::RelayParts;
use super::watcher::ServerLsn;
use crate::pgoutput;
use crate::postgres;
use crate::replication::{Feedback, ReplicationMessage};
use crate::telemetry::{Component, Metrics, Progress, Status};
use crate::wal::PgTimestamp;
use crate::wire::READ_BYTES;

/// How often the status is told while nothing happens, and at most while much does.
const TICK: Duration = Duration::from_millis(500);

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
    last_tick: Instant,
    /// Until when the socket is left alone.
    nap: Option<Instant>,
    /// Since when the SQL connection is gone.
    sql_lost: Option<Instant>,
}

/// Where the stream stands with a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// No stop: go on.
    On,
    /// Told to stop: to the end of the open transaction, so that it is not repeated.
    ToCommit,
    /// No further.
    Off,
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
        let feedback = Feedback::new(interval, link.confirmed, now);
        Self {
            parts,
            link,
            feed,
            feedback,
            server,
            status,
            metrics,
            last_tick: now,
            nap: None,
            sql_lost: None,
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
            self.pump(reading).await?;
            self.collect()?;
            self.confirm().await?;
            if reading == Reading::Off && self.feed.window().records() == 0 {
                return Ok(());
            }
            let wants_input = reading != Reading::Off && self.feed.has_room();
            let napping = self.nap.is_some_and(|until| Instant::now() < until);
            let wake_at = self.wake_at().into();
            tokio::select! {
                biased;
                // 1: acknowledgements make room and let the server throw WAL away. They can wait for the end of a nap.
                () = self.parts.producer.deliveries().arrived(), if !(wants_input && napping) => {}
                // 2: a full window stops the reading; updates go on.
                read = self.link.stream.fill(), if wants_input && !napping => {
                    self.rest_after(read?);
                }
                // 3: a stop.
                () = stop.cancelled(), if reading == Reading::On => {}
                // 4: the walsender must hear from us, and the status must be told.
                () = time::sleep_until(wake_at) => {}
            }
        }
    }

    /// After a failure: waits for what is on its way and confirms what was acknowledged before the failure, so that a
    /// restart repeats as little as possible.
    pub(super) async fn drain(&mut self) -> Result<(), Error> {
        loop {
            self.feed.absorb()?;
            self.feedback.flushed(self.feed.frontier());
            self.confirm().await?;
            if self.feed.window().records() == 0 {
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

    fn reading(&self, reading: Reading, stop: &CancellationToken) -> Reading {
        match reading {
            Reading::On if !stop.is_cancelled() => Reading::On,
            Reading::On | Reading::ToCommit if self.feed.in_transaction() => Reading::ToCommit,
            Reading::On | Reading::ToCommit | Reading::Off => Reading::Off,
        }
    }

    /// Takes every whole message that is in the buffer, while the window has room.
    async fn pump(&mut self, reading: Reading) -> Result<(), Error> {
        while reading != Reading::Off && self.feed.has_room() {
            let wish = match self.link.stream.buffered()? {
                None => return Ok(()),
                Some(ReplicationMessage::PrimaryKeepalive(keepalive)) => {
                    self.feedback.received(keepalive.wal_end);
                    self.feed.mark(keepalive.wal_end);
                    if keepalive.reply_requested {
                        self.feedback.asked();
                    }
                    Wish::None
                }
                Some(ReplicationMessage::XLogData(data)) => {
                    let lsn = data.wal_start.max(self.feedback.last_received());
                    let message =
                        pgoutput::decode(data.data).map_err(|source| Error::Decode { lsn, source })?;
                    self.feedback.received(lsn);
                    let wish = self.feed.take(message)?;
                    self.link.stream.passed(lsn);
                    wish
                }
            };
            match wish {
                Wish::None => {}
                Wish::Committed(end_lsn) => {
                    self.feedback.received(end_lsn);
                    self.metrics.transactions(1);
                    if reading == Reading::ToCommit {
                        return Ok(());
                    }
                }
                Wish::Describe(relation) => {
                    let table = resolve(self.parts, &self.link.sql, &relation, &self.parts.router).await?;
                    self.feed.describe(relation.oid, table);
                }
            }
        }
        Ok(())
    }

    fn collect(&mut self) -> Result<(), Error> {
        let reports = self.feed.collect()?;
        self.feedback.flushed(self.feed.frontier());
        let now = Instant::now();
        match reports.trouble {
            Some(reason) => self.status.down(Component::Kafka, reason, now),
            None if self.last_tick + TICK <= now => self.status.up(Component::Kafka, now),
            None => {}
        }
        if self.last_tick + TICK <= now {
            self.tick(now);
            self.check_sql(now)?;
        }
        Ok(())
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
            flushed: self.feed.frontier(),
            confirmed: self.feedback.confirmed(),
            server: self.server.get().max(received),
            oldest_commit: self.feed.oldest_commit().and_then(system_time),
            oldest_unacknowledged: self.feed.oldest_unacknowledged,
            last_event: self.feed.last_event,
            inflight_events: self.feed.window().records(),
            inflight_bytes: self.feed.window().bytes(),
            events: self.feed.events,
        };
        self.status.tick(progress, now);
    }

    fn wake_at(&self) -> Instant {
        let regular = self.feedback.due().min(self.last_tick + TICK);
        self.nap.filter(|until| *until > Instant::now()).map_or(regular, |until| regular.min(until))
    }
}

/// The server gives up on a client that is silent for `wal_sender_timeout`; a third of it leaves room for delays.
fn status_interval(wanted: Duration, wal_sender_timeout_ms: i64) -> Duration {
    match u64::try_from(wal_sender_timeout_ms) {
        Ok(timeout_ms) if timeout_ms > 0 => wanted.min(Duration::from_millis((timeout_ms / 3).max(1))),
        _ => wanted,
    }
}

fn system_time(time: PgTimestamp) -> Option<SystemTime> {
    let us = u64::try_from(time.unix_us()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_micros(us))
}
