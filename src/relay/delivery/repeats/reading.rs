//! Reads the end of a topic on a thread of its own, until the predecessor's records in flight are written.

use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

use super::tails::{Found, Question, Tail};
use crate::error::{Diagnose as _, chain};
use crate::kafka::{Error, Options, TopicTail};

/// Time that a predecessor's records in flight may take to be written. Later ones are duplicates.
const QUIET: Duration = Duration::from_secs(1);

/// Most reads of a topic that a predecessor still writes to.
const LOOKS_MAX: usize = 10;

/// About how many records of a topic are read, ours or not.
const READ_MAX: i64 = 2_000_000;

/// Time for which a topic is tried that the brokers have and do not return. Time in which no broker responds
/// does not count.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pause before brokers are queried again.
const INTERVAL: Duration = Duration::from_millis(200);

/// The reading of a topic's end, on a thread of its own.
struct Reading {
    options: Options,
    topic: String,
    /// Channel whose other end is dropped when the result is not needed any more.
    wanted: Receiver<()>,
    found: Found,
    /// Number of partitions of the topic.
    partitions: usize,
}

/// Returns the time from which nothing more is expected of a predecessor that is gone now.
pub(in crate::relay) fn quiet_at() -> Instant {
    Instant::now() + QUIET
}

/// Reads the part of a topic's end that can be repeated. Waits for brokers that are down. What cannot be read
/// is repeated, which is logged.
pub(in crate::relay) async fn read(options: Options, question: Question) -> Tail {
    let (wants, wanted) = sync_channel(1);
    let (topic, quiet_at) = (question.topic.clone(), question.quiet_at);
    let mut reading =
        Reading { options, topic: topic.clone(), wanted, found: Found::new(question), partitions: 0 };
    let read = spawn_blocking(move || {
        let outcome = reading.read(quiet_at);
        reading.report(outcome);
        reading.found.into_tail(reading.partitions)
    });
    let tail = read.await;
    drop(wants);
    tail.unwrap_or_else(|_| Tail::unread(topic))
}

impl Reading {
    fn read(&mut self, mut quiet_at: Option<Instant>) -> Result<(), Error> {
        let mut tail = self.look_back()?;
        for _ in 0..LOOKS_MAX {
            // Where nothing was found there is nothing that is worth waiting for.
            let Some(at) = quiet_at.filter(|at| *at > Instant::now() && self.found.count() > 0) else {
                break;
            };
            self.pause_until(at);
            let before = self.found.count();
            let (found, wanted) = (&mut self.found, || is_wanted(&self.wanted));
            tail.read_on(wanted, |record| found.take_record(record))?;
            quiet_at = (self.found.count() > before).then(self::quiet_at);
        }
        Ok(())
    }

    /// Repeats the request until there is a final answer.
    fn look_back(&mut self) -> Result<TopicTail, Error> {
        let mut tried_since = None;
        loop {
            let mut tail = match TopicTail::open(&self.options, &self.topic) {
                Err(error) if is_passing(&error) && self.is_wanted() => {
                    tried_since = None;
                    self.pause_until(Instant::now() + INTERVAL);
                    continue;
                }
                answer => answer?,
            };
            self.partitions = tail.partitions();
            let since = *tried_since.get_or_insert_with(Instant::now);
            let (found, wanted) = (&mut self.found, || is_wanted(&self.wanted));
            match tail.read_back(READ_MAX, wanted, |record| found.take_record(record)) {
                Err(error) if is_passing(&error) && since.elapsed() < PATIENCE && self.is_wanted() => {
                    self.pause_until(Instant::now() + INTERVAL);
                }
                outcome => return outcome.map(|()| tail),
            }
        }
    }

    fn report(&self, outcome: Result<(), Error>) {
        let (topic, found) = (&self.topic, self.found.count());
        if !self.is_wanted() {
            return;
        }
        match outcome {
            Err(error) => tracing::warn!(
                topic,
                found,
                error = chain(&error),
                fix = error.fix(),
                "the end of the topic cannot be read completely: rows that are not found are sent again"
            ),
            Ok(()) if self.found.is_full() => tracing::warn!(
                topic,
                found,
                "more rows may be repeated than fit into memory: the older ones are sent again"
            ),
            Ok(()) => tracing::debug!(topic, found, "the end of the topic is read"),
        }
    }

    /// Waits until then, or until the result is not needed any more.
    fn pause_until(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        self.wanted.recv_timeout(left).ok();
    }

    fn is_wanted(&self) -> bool {
        is_wanted(&self.wanted)
    }
}

fn is_wanted(wanted: &Receiver<()>) -> bool {
    wanted.try_recv() != Err(TryRecvError::Disconnected)
}

/// Returns whether the error may be over at the next attempt.
const fn is_passing(error: &Error) -> bool {
    matches!(error, Error::TopicTail { forbidden: false, .. })
}
