//! Where the relay keeps its position: the topic, a session's writes, and a look from outside.

mod peek;
mod writer;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::capture::CapturedTable;
use super::error::Error;
use super::options::PositionOptions;
use super::parts::RelayParts;
use super::position::{Phase, Position, RecordError};
use crate::error::{Class, Diagnose, chain};
use crate::kafka::{self, PositionTopic, Read, Receipt, TopicFault};
use crate::wal::Lsn;
pub(crate) use peek::{KeptPosition, kept_position};
pub(super) use writer::PositionWriter;

/// How long the topic may take to be read, to be made, and to take one position that is waited for.
const READ_PATIENCE: Duration = Duration::from_secs(10);
const MAKE_PATIENCE: Duration = Duration::from_secs(10);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// How long the end of a process waits until Kafka knows of it.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// How often a relay that stands by looks at what the other one captures.
const HOLDER_INTERVAL: Duration = Duration::from_secs(30);

/// How many values of `outboxd.position.accept` are remembered. A value counts while the position stands where it says.
const ACCEPTED_MAX: usize = 8;

/// What carries positions to Kafka: a producer, or in the simulation a model of it.
pub(super) trait PositionLog: Debug {
    /// By which the outcome of one is asked for.
    type Receipt: Debug;

    /// The name of the topic.
    fn name(&self) -> &str;

    /// Hands a value over. It never blocks.
    fn send(&self, key: &[u8], value: &[u8]) -> Result<Self::Receipt, kafka::Error>;

    /// What has come of it, once that is known.
    fn outcome(&self, receipt: &mut Self::Receipt) -> Option<Result<(), kafka::Error>>;
}

impl PositionLog for PositionTopic {
    type Receipt = Receipt;

    fn name(&self) -> &str {
        Self::name(self)
    }

    fn send(&self, key: &[u8], value: &[u8]) -> Result<Receipt, kafka::Error> {
        Self::send(self, key, value)
    }

    fn outcome(&self, receipt: &mut Receipt) -> Option<Result<(), kafka::Error>> {
        Self::outcome(self, receipt)
    }
}

/// Where the relay keeps its position, for as long as the process runs.
#[derive(Debug)]
pub(super) struct Positions<L = PositionTopic>(Arc<Inner<L>>);

#[derive(Debug)]
struct Inner<L> {
    topic: L,
    key: String,
    /// The greatest that Kafka has, as far as is known.
    epoch: AtomicU64,
    /// The last values of `outboxd.position.accept` that starts have gone on with.
    accepted: Mutex<Vec<Lsn>>,
    /// Kafka has a position that the next start compares with the slot.
    is_compared: AtomicBool,
    /// The position that was read last was of a process that had ended cleanly.
    follows_end: AtomicBool,
    /// The brokers do not let us: the relay goes on without.
    off: AtomicBool,
    /// The last one that this process wrote and Kafka has.
    own: Mutex<Option<Position>>,
    /// When the tables of the relay that has the slot were looked at last.
    looked: Mutex<Option<Instant>>,
}

impl<L> Clone for Positions<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Positions {
    /// The topic that the configuration names, if any.
    pub(super) fn new(parts: &RelayParts) -> Result<Option<Self>, Error> {
        let PositionOptions { topic: Some(topic), key, .. } = &parts.relay.position else { return Ok(None) };
        let topic = PositionTopic::new(&parts.kafka, topic, parts.producer.deliveries().clone())?;
        Ok(Some(Self::in_log(topic, key)))
    }

    /// The position that Kafka has. Read once the slot is free: until then its owner may write a newer one. The topic is
    /// made when there is none.
    pub(super) async fn read(&self) -> Result<Option<Position>, Error> {
        self.0.follows_end.store(false, Ordering::Relaxed);
        let values = match self.values().await {
            Ok(Read::Values(values)) => values,
            Ok(Read::NoTopic) => {
                self.0.is_compared.store(false, Ordering::Relaxed);
                let made = self.0.topic.make(MAKE_PATIENCE).await;
                made.or_else(|error| self.go_without(error.into()))?;
                return Ok(None);
            }
            Err(error) => return self.go_without(error.into()).map(|()| None),
        };
        let position = self.learn(&values)?;
        Ok(match position {
            Some(position) if position.ended => {
                self.0.follows_end.store(true, Ordering::Relaxed);
                Some(self.take_end_away(position).await)
            }
            position => position,
        })
    }

    /// The tables that the relay which has the slot captures, as far as its position tells them and it is time to look again.
    pub(super) async fn tables_of_holder(&self) -> Option<Vec<CapturedTable>> {
        if !self.is_time_to_look(Instant::now()) {
            return None;
        }
        let Ok(Read::Values(values)) = self.values().await else { return None };
        let position = Position::newest(&values).ok()??;
        Some(position.tables).filter(|tables| !tables.is_empty())
    }

    fn is_time_to_look(&self, now: Instant) -> bool {
        let mut looked = self.0.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = looked.is_none_or(|at| now.saturating_duration_since(at) >= HOLDER_INTERVAL);
        if is_time {
            *looked = Some(now);
        }
        is_time
    }

    /// Writes a position, and waits until Kafka has it; or goes on without.
    pub(super) async fn write(&self, position: &Position) -> Result<(), Error> {
        if !self.is_on() {
            return Ok(());
        }
        self.try_write(position, WRITE_PATIENCE).await.or_else(|error| self.go_without(error))
    }

    /// This process has ended, with everything acknowledged and its source offset stored, if it stores one. Whoever goes on from there can know.
    pub(super) async fn end(&self) {
        let own = self.own().take().filter(|own| own.phase == Phase::Streaming && self.is_on());
        let Some(own) = own else { return };
        if let Err(error) = self.try_write(&own.with_end(true), END_PATIENCE).await {
            tracing::warn!(
                error = chain(&error),
                "that this run has ended cleanly is not in Kafka: outboxd migrate rollback will ask for another start and stop"
            );
        }
    }

    /// This process ends because rows are not in the stream: the next start must not pass over that.
    pub(super) async fn stop(&self, problem: String, cure: String) {
        let own = self.own().take().filter(|own| own.phase == Phase::Streaming && self.is_on());
        let Some(own) = own else { return };
        if let Err(error) = self.try_write(&own.with_stop(problem, cure), END_PATIENCE).await {
            tracing::error!(
                error = chain(&error),
                "that rows are not in the stream is not in Kafka: the next start does not know it"
            );
        }
    }

    /// Whether the process before this one had ended cleanly, as far as it was looked at for this session.
    pub(super) fn follows_end(&self) -> bool {
        self.0.follows_end.load(Ordering::Relaxed)
    }

    /// Before anything is sent: a process that is killed at once must not look like one that has ended.
    async fn take_end_away(&self, position: Position) -> Position {
        let begun = position.with_end(false);
        if let Err(error) = self.try_write(&begun, WRITE_PATIENCE).await {
            tracing::warn!(
                error = chain(&error),
                "that the last run has ended cleanly still stands in Kafka: do not rely on outboxd migrate rollback until this one has"
            );
        }
        begun
    }

    async fn try_write(&self, position: &Position, patience: Duration) -> Result<(), Error> {
        let value = position.to_json().map_err(|source| self.unreadable(source))?;
        self.0.topic.write(self.0.key.as_bytes(), &value, patience).await?;
        self.has_written(position);
        Ok(())
    }

    async fn values(&self) -> Result<Read, kafka::Error> {
        let (inner, stop) = (Arc::clone(&self.0), CancellationToken::new());
        // When nobody waits any more, the thread must not either.
        let _guard = stop.clone().drop_guard();
        let (answer, answered) = oneshot::channel();
        // The end of the process waits for the thread, and only that does.
        spawn_blocking(move || {
            // Nobody listens any more when the session was cancelled.
            inner.topic.read(inner.key.as_bytes(), READ_PATIENCE, &stop, |read| drop(answer.send(read)));
        });
        answered.await.unwrap_or_else(|_| Err(kafka::Error::Fatal("the reading was aborted".to_owned())))
    }
}

impl<L: PositionLog> Positions<L> {
    /// Of the relay with this key.
    pub(super) fn in_log(topic: L, key: &str) -> Self {
        let (key, epoch, accepted) = (key.to_owned(), AtomicU64::new(0), Mutex::default());
        let [is_compared, follows_end, off] = [(); 3].map(|()| AtomicBool::new(false));
        let (own, looked) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { topic, key, epoch, accepted, is_compared, follows_end, off, own, looked }))
    }

    /// Of the key's values, oldest first: the position that counts.
    pub(super) fn learn(&self, values: &[Option<Vec<u8>>]) -> Result<Option<Position>, Error> {
        let position = Position::newest(values).map_err(|source| self.unreadable(source))?;
        // What this process has used up need not be in Kafka yet.
        let accepted = position.iter().flat_map(|position| &position.accepted);
        accepted.for_each(|accepted| self.use_up(*accepted));
        match &position {
            Some(position) => {
                self.has(position);
                tracing::info!(topic = self.0.topic.name(), lsn = %position.lsn, phase = ?position.phase, "the position is known");
            }
            None => self.0.is_compared.store(false, Ordering::Relaxed),
        }
        Ok(position)
    }

    /// A start has gone on with this value of `outboxd.position.accept`.
    pub(super) fn use_up(&self, accept: Lsn) {
        let mut accepted = self.accepted();
        if accepted.contains(&accept) {
            return;
        }
        if accepted.len() == ACCEPTED_MAX {
            accepted.remove(0);
        }
        accepted.push(accept);
    }

    /// What a position of a new session has besides.
    pub(super) fn begin(&self, position: &mut Position) {
        position.accepted = self.accepted().clone();
        position.epoch = self.next_epoch();
    }

    fn accepted(&self) -> MutexGuard<'_, Vec<Lsn>> {
        self.0.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The epoch of a new session. It is that of the last one if nothing of that one is known to be in Kafka: of two
    /// epochs that are on their way at once, the next relay might know neither, and have a smaller one.
    fn next_epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Relaxed).saturating_add(1)
    }

    /// Kafka has this position of ours.
    fn has_written(&self, position: &Position) {
        self.has(position);
        *self.own() = Some(position.clone());
    }

    fn own(&self) -> MutexGuard<'_, Option<Position>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kafka has this position.
    fn has(&self, position: &Position) {
        self.0.epoch.fetch_max(position.epoch, Ordering::Relaxed);
        self.0.is_compared.store(position.phase == Phase::Streaming, Ordering::Relaxed);
    }

    /// Whether Kafka has a position that the next start compares with the slot.
    pub(super) fn is_compared(&self) -> bool {
        self.0.is_compared.load(Ordering::Relaxed)
    }

    /// Whether the brokers let us.
    pub(super) fn is_on(&self) -> bool {
        !self.0.off.load(Ordering::Relaxed)
    }

    /// Hands a position over. It never blocks.
    fn send(&self, position: &Position) -> Result<L::Receipt, Error> {
        let value = position.to_json().map_err(|source| self.unreadable(source))?;
        Ok(self.0.topic.send(self.0.key.as_bytes(), &value)?)
    }

    /// What has come of it, once that is known.
    fn outcome(&self, receipt: &mut L::Receipt) -> Option<Result<(), kafka::Error>> {
        self.0.topic.outcome(receipt)
    }

    /// When the brokers do not let us, and only then, the relay goes on without a position. It is told once. But not when
    /// Kafka has one: if the slot went on and the position did not, the next start would take that for the doing of
    /// somebody else.
    pub(super) fn go_without(&self, error: Error) -> Result<(), Error> {
        let is_missing =
            matches!(error, Error::Kafka(kafka::Error::PositionTopic { fault: TopicFault::Missing, .. }));
        if error.class() != Class::Definite || self.is_compared() && !is_missing {
            return Err(error);
        }
        if !self.0.off.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = chain(&error),
                cure = error.cure(),
                "outboxd does not keep its position: it goes on, but a later start does not notice a slot \
                 that was moved, dropped or made again while outboxd did not run"
            );
        }
        Ok(())
    }

    fn unreadable(&self, source: RecordError) -> Error {
        Error::NoPosition { topic: self.0.topic.name().to_owned(), key: self.0.key.clone(), source }
    }
}
