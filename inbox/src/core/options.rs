use std::num::NonZeroUsize;
use std::time::Duration;

use super::retry::Retry;

/// What is kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Events with the same key, which is what Kafka promises too. Events without a key have no order.
    #[default]
    PerKey,
    /// All events of a partition.
    PerPartition,
    /// Nothing.
    None,
}

/// What happens to a key when one of its events has become a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AfterDeadLetter {
    /// Its later events are handled.
    #[default]
    KeyGoesOn,
    /// Its later events wait in the table until the key is released. Events without a key go on.
    KeyWaits,
}

/// How a consumer works.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is kept in order.
    pub order: Order,
    /// When a handler that failed is called again.
    pub retry: Retry,
    /// What happens to a key when one of its events has become a dead letter.
    pub after_dead_letter: AfterDeadLetter,
    /// The most events of one partition that wait in the table. When it is full they wait in memory, and then in Kafka.
    pub parked_max: usize,
    /// How often is looked whether a key that waits has been released.
    pub release_poll: Duration,
    /// The most handlers at work at a time, each with a connection to PostgreSQL. One more connection is for a transaction
    /// that is being committed while the next handler is at work.
    pub workers: NonZeroUsize,
    /// The most events in one transaction.
    pub batch: NonZeroUsize,
    /// An event in whose middle the process has ended so often waits in the table, handled alone after each wait. After the last
    /// wait it becomes a dead letter.
    pub crashes_max: u32,
    /// The longest time that a handler may take. A handler that has not returned by then is dropped, its transaction is rolled
    /// back, and the attempt has failed.
    pub handler_within: Duration,
    /// Events of one partition that wait in memory; at this number no more are read until half of them are left.
    pub queued_max: usize,
    /// The same in bytes.
    pub queued_bytes_max: usize,
    /// When that takes longer than this, the partition is paused, and the others are read. librdkafka forgets what it has
    /// fetched of a partition that is paused.
    pub pause_after: Duration,
    /// When so many events in a row fail at their first attempt, the cause is not in the events: until one succeeds, a few are
    /// tried at a time, and none is given up. Events that are wrong by themselves (`Failure::poison`) do not count.
    pub failures_in_a_row_max: u32,
    /// The longest pause between those trials. The first one is a tenth of it.
    pub guard_pause: Duration,
    /// How long to wait when PostgreSQL does not answer.
    pub unavailable_pause: Duration,
    /// How long to wait before a partition is taken again that another consumer has taken. By then Kafka has told whose
    /// it is.
    pub fenced_pause: Duration,
    /// An offset that Kafka has accepted is committed again after this long.
    pub commit_again_after: Duration,
}

impl Options {
    /// The most transactions at a time.
    pub(crate) fn open_max(&self) -> usize {
        self.workers.get().saturating_add(1)
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::PerKey,
            retry: Retry::default(),
            after_dead_letter: AfterDeadLetter::default(),
            parked_max: 10_000,
            release_poll: Duration::from_secs(5),
            workers: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            batch: NonZeroUsize::MIN,
            crashes_max: 3,
            handler_within: Duration::from_secs(300),
            queued_max: 5000,
            queued_bytes_max: 2 << 20,
            pause_after: Duration::from_millis(300),
            failures_in_a_row_max: 64,
            guard_pause: Duration::from_secs(5),
            unavailable_pause: Duration::from_millis(500),
            fenced_pause: Duration::from_secs(5),
            commit_again_after: Duration::from_secs(30),
        }
    }
}
