//! Storage of the relay's position: the topic, a session's writes, and a query from outside.

mod peek;
mod writer;

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use super::position::{Phase, Position, RecordError};
use crate::error::{Class, Diagnose, chain};
use crate::kafka::{self, PositionTopic, Read, Receipt, TopicFault};
use crate::relay::capture::captured::CapturedTable;
use crate::relay::error::Error;
use crate::relay::options::PositionOptions;
use crate::relay::parts::RelayParts;
use crate::wal::Lsn;
pub(in crate::relay) use peek::peek_position;
pub(crate) use peek::{StoredPosition, stored_position};
pub(in crate::relay) use writer::PositionWriter;

/// Time that reading the topic, creating it, and writing one position may take.
const READ_PATIENCE: Duration = Duration::from_secs(10);
const MAKE_PATIENCE: Duration = Duration::from_secs(10);
const WRITE_PATIENCE: Duration = Duration::from_secs(10);

/// Longest wait at the end of a process for Kafka's acknowledgement.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// Interval between two polls of a standby for the tables that the active relay captures.
const HOLDER_INTERVAL: Duration = Duration::from_secs(30);

/// Most values of `outboxd.position.accept` that are remembered. A value counts while the position is where
/// it names.
const ACCEPTED_MAX: usize = 8;

/// Path of positions to Kafka: a producer, or in the simulation a model of it.
pub(in crate::relay) trait PositionLog: Debug {
    /// Handle with which the outcome of a write is requested.
    type Receipt: Debug;

    /// Returns the name of the topic.
    fn name(&self) -> &str;

    /// Hands a value over. It never blocks.
    fn send(&self, key: &[u8], value: &[u8]) -> Result<Self::Receipt, kafka::Error>;

    /// Returns the outcome of a write, once that is known.
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

/// Storage of the relay's position, for the lifetime of the process.
#[derive(Debug)]
pub(in crate::relay) struct Positions<L = PositionTopic>(Arc<Inner<L>>);

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
    /// True if the brokers deny access: the relay continues without.
    off: AtomicBool,
    /// The last one that this process wrote and Kafka has.
    own: Mutex<Option<Position>>,
    /// The last one that this process read.
    read: Mutex<Option<Position>>,
    /// Time of the last poll for the tables of the relay that has the slot.
    looked: Mutex<Option<Instant>>,
}

impl<L> Clone for Positions<L> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl Positions {
    /// Creates the storage in the topic that the configuration names, if any.
    pub(in crate::relay) fn new(parts: &RelayParts) -> Result<Option<Self>, Error> {
        let PositionOptions { topic: Some(topic), key, .. } = &parts.relay.position else { return Ok(None) };
        let topic = PositionTopic::new(&parts.kafka, topic, parts.producer.deliveries().clone())?;
        Ok(Some(Self::in_log(topic, key)))
    }

    /// Reads the position that Kafka has. Must be called once the slot is free: until then its owner may
    /// write a newer one. Creates the topic if it does not exist.
    pub(in crate::relay) async fn read(&self) -> Result<Option<Position>, Error> {
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

    /// Returns the tables that the relay with the slot captures, as far as its position has them and another
    /// poll is due.
    pub(in crate::relay) async fn tables_of_holder(&self) -> Option<Vec<CapturedTable>> {
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

    /// Writes a position, and waits until Kafka has it; or continues without.
    pub(in crate::relay) async fn write(&self, position: &Position) -> Result<(), Error> {
        if !self.is_on() {
            return Ok(());
        }
        self.try_write(position, WRITE_PATIENCE).await.or_else(|error| self.go_without(error))
    }

    /// Records in Kafka that this process has ended, with everything acknowledged and its source offset
    /// stored, if it stores one, so that its successor can rely on it.
    pub(in crate::relay) async fn end(&self) {
        let own = self.own().take().filter(|own| own.phase == Phase::Streaming && self.is_on());
        let Some(own) = own else { return };
        if let Err(error) = self.try_write(&own.with_end(true), END_PATIENCE).await {
            tracing::warn!(
                error = chain(&error),
                "cannot store the clean end of this run in Kafka: outboxd migrate rollback will ask for \
                 another start and stop"
            );
        }
    }

    /// Records in Kafka that this process ends because rows are not in the stream: the next start must not
    /// ignore that.
    pub(in crate::relay) async fn stop(&self, problem: &str, fix: &str) -> Result<(), Error> {
        let stop = self.with_stop(problem.to_owned(), fix.to_owned()).filter(|_| self.is_on());
        match stop {
            Some(stop) => self.try_write(&stop, END_PATIENCE).await,
            None => Ok(()),
        }
    }

    /// Returns whether the process before this one had ended cleanly, as far as its position was read for
    /// this session.
    pub(in crate::relay) fn follows_end(&self) -> bool {
        self.0.follows_end.load(Ordering::Relaxed)
    }

    /// Clears the end before anything is sent: a process that is killed at once must not look like one that
    /// has ended.
    async fn take_end_away(&self, position: Position) -> Position {
        let begun = position.with_end(false);
        if let Err(error) = self.try_write(&begun, WRITE_PATIENCE).await {
            tracing::warn!(
                error = chain(&error),
                "Kafka still has the clean end of the last run: do not rely on outboxd migrate rollback \
                 until this run has ended"
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
        // When the caller does not wait any more, the thread must not either.
        let _guard = stop.clone().drop_guard();
        let (answer, answered) = oneshot::channel();
        // The end of the process waits for the thread, and only that does.
        spawn_blocking(move || {
            // The receiver is gone when the session was cancelled.
            inner.topic.read(inner.key.as_bytes(), READ_PATIENCE, &stop, |read| drop(answer.send(read)));
        });
        answered.await.unwrap_or_else(|_| Err(kafka::Error::Fatal("the reading was aborted".to_owned())))
    }
}

impl<L: PositionLog> Positions<L> {
    /// Creates the storage of the relay with this key.
    pub(in crate::relay) fn in_log(topic: L, key: &str) -> Self {
        let (key, epoch, accepted) = (key.to_owned(), AtomicU64::new(0), Mutex::default());
        let [is_compared, follows_end, off] = [(); 3].map(|()| AtomicBool::new(false));
        let (own, read, looked) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self(Arc::new(Inner {
            topic,
            key,
            epoch,
            accepted,
            is_compared,
            follows_end,
            off,
            own,
            read,
            looked,
        }))
    }

    /// Returns the position that counts of the key's values, oldest first.
    pub(in crate::relay) fn learn(&self, values: &[Option<Vec<u8>>]) -> Result<Option<Position>, Error> {
        let position = Position::newest(values).map_err(|source| self.unreadable(source))?;
        // What this process has used up need not be in Kafka yet.
        let accepted = position.iter().flat_map(|position| &position.accepted);
        accepted.for_each(|accepted| self.use_up(*accepted));
        self.0.read.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&position);
        match &position {
            Some(position) => {
                self.has(position);
                tracing::info!(
                    topic = self.0.topic.name(), lsn = %position.lsn, phase = ?position.phase,
                    "resuming from the stored position"
                );
            }
            None => self.0.is_compared.store(false, Ordering::Relaxed),
        }
        Ok(position)
    }

    /// Records that a start has continued with this value of `outboxd.position.accept`.
    pub(in crate::relay) fn use_up(&self, accept: Lsn) {
        let mut accepted = self.accepted();
        if accepted.contains(&accept) {
            return;
        }
        if accepted.len() == ACCEPTED_MAX {
            accepted.remove(0);
        }
        accepted.push(accept);
    }

    /// Sets the further members of a new session's position.
    pub(in crate::relay) fn begin(&self, position: &mut Position) {
        position.accepted = self.accepted().clone();
        position.epoch = self.next_epoch();
    }

    fn accepted(&self) -> MutexGuard<'_, Vec<Lsn>> {
        self.0.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the epoch of a new session. It is that of the last one if nothing of that one is known to be
    /// in Kafka: of two epochs in flight at once, the next relay might know neither, and have a smaller one.
    fn next_epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Relaxed).saturating_add(1)
    }

    /// Records that Kafka has this position, written by this process.
    fn has_written(&self, position: &Position) {
        self.has(position);
        *self.own() = Some(position.clone());
    }

    /// Returns the newest position with a stop: the one that this process wrote last, or the one that it continues from. A stop that is
    /// stored already stays as it is. Its epoch is the next one: Kafka may receive a further position of this session late.
    fn with_stop(&self, problem: String, fix: String) -> Option<Position> {
        let read = self.0.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let newest = [self.own().clone(), read].into_iter().flatten().rev().max_by_key(|kept| kept.epoch)?;
        let is_free = newest.phase == Phase::Streaming && newest.stopped.is_none();
        is_free.then(|| {
            let mut stop = newest.with_stop(problem, fix);
            stop.epoch = stop.epoch.saturating_add(1);
            stop
        })
    }

    fn own(&self) -> MutexGuard<'_, Option<Position>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that Kafka has this position.
    fn has(&self, position: &Position) {
        self.0.epoch.fetch_max(position.epoch, Ordering::Relaxed);
        self.0.is_compared.store(position.phase == Phase::Streaming, Ordering::Relaxed);
    }

    /// Returns whether Kafka has a position that the next start compares with the slot.
    pub(in crate::relay) fn is_compared(&self) -> bool {
        self.0.is_compared.load(Ordering::Relaxed)
    }

    /// Returns whether the brokers allow access.
    pub(in crate::relay) fn is_on(&self) -> bool {
        !self.0.off.load(Ordering::Relaxed)
    }

    /// Hands a position over. It never blocks.
    fn send(&self, position: &Position) -> Result<L::Receipt, Error> {
        let value = position.to_json().map_err(|source| self.unreadable(source))?;
        Ok(self.0.topic.send(self.0.key.as_bytes(), &value)?)
    }

    /// Returns the outcome of a write, once that is known.
    fn outcome(&self, receipt: &mut L::Receipt) -> Option<Result<(), kafka::Error>> {
        self.0.topic.outcome(receipt)
    }

    /// Continues without a position if the brokers deny access, and only then. This is logged once. It is an
    /// error when Kafka has a position: if the slot advanced and the position did not, the next start would
    /// blame another client.
    pub(in crate::relay) fn go_without(&self, error: Error) -> Result<(), Error> {
        let is_missing =
            matches!(error, Error::Kafka(kafka::Error::PositionTopic { fault: TopicFault::Missing, .. }));
        if error.class() != Class::Definite || self.is_compared() && !is_missing {
            return Err(error);
        }
        if !self.0.off.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                error = chain(&error),
                fix = error.fix(),
                "outboxd does not store its position: a later start cannot detect a slot that was moved, \
                 dropped or created again while outboxd was stopped"
            );
        }
        Ok(())
    }

    fn unreadable(&self, source: RecordError) -> Error {
        Error::NoPosition { topic: self.0.topic.name().to_owned(), key: self.0.key.clone(), source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::origin::Origin;
    use crate::wal::{Oid, SystemId, TimelineId};

    /// Acknowledges nothing.
    #[derive(Debug)]
    struct Silent;

    impl PositionLog for Silent {
        type Receipt = ();

        fn name(&self) -> &'static str {
            "positions"
        }

        fn send(&self, _: &[u8], _: &[u8]) -> Result<(), kafka::Error> {
            Ok(())
        }

        fn outcome(&self, (): &mut ()) -> Option<Result<(), kafka::Error>> {
            None
        }
    }

    fn at(epoch: u64) -> Position {
        let origin = Origin { system_id: SystemId("1".to_owned()), timeline: TimelineId(1) };
        let mut position = Position::at(Lsn::new(100), &origin, "shop", Oid(5), "outbox");
        position.epoch = epoch;
        position
    }

    #[test]
    fn a_position_that_arrives_behind_a_stop_does_not_replace_it() {
        let positions = Positions::in_log(Silent, "key");
        positions.has_written(&at(4));
        let stop = positions.with_stop("rows are missing".to_owned(), "send them".to_owned()).unwrap();
        let mut late = at(4);
        late.lsn = Lsn::new(900);
        let values = [stop, late].map(|position| position.to_json().ok());
        assert!(Position::newest(&values).unwrap().unwrap().stopped.is_some());
    }

    #[test]
    fn a_stop_is_stored_with_the_newest_position_also_of_an_earlier_process() {
        let positions = Positions::in_log(Silent, "key");
        let stop = || {
            let stop = positions.with_stop("rows are missing".to_owned(), "send them".to_owned())?;
            stop.stopped.as_ref().map(|stopped| (stop.epoch, stopped.problem.clone()))
        };
        let learn = |position: &Position| positions.learn(&[position.to_json().ok()]).unwrap();
        assert_eq!(stop(), None, "a first start has nothing to lose");
        learn(&at(3));
        assert_eq!(
            stop(),
            Some((4, "rows are missing".to_owned())),
            "nothing of this process is in Kafka yet"
        );
        positions.has_written(&at(4));
        assert_eq!(stop(), Some((5, "rows are missing".to_owned())));
        learn(&at(5).with_stop("a filter".to_owned(), "send them".to_owned()));
        assert_eq!(stop(), None, "the one that is stored stays as it is");
    }
}
