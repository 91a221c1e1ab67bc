//! Options of a consumer's decisions.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::retry::Retry;

/// Order in which events are handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Order {
    /// Events with the same key are in order, as in Kafka. Events without a key have no order.
    #[default]
    PerKey,
    /// All events of a partition are in order.
    PerPartition,
    /// No order.
    None,
}

/// Handling of a key after one of its events has become a dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AfterDeadLetter {
    /// The later events of the key are handled.
    #[default]
    KeyGoesOn,
    /// The later events of the key wait in the table until the key is released. Events without a key do not wait.
    KeyWaits,
}

/// Options of a consumer.
#[derive(Debug, Clone)]
pub struct Options {
    /// Order in which events are handled.
    pub order: Order,
    /// Waits before the further attempts of a handler that failed.
    pub retry: Retry,
    /// Handling of a key after one of its events has become a dead letter.
    pub after_dead_letter: AfterDeadLetter,
    /// Maximum number of events of one partition that wait in the table. Further events wait in memory, and then in Kafka.
    pub parked_max: usize,
    /// Interval of the check whether a waiting key has been released.
    pub release_poll: Duration,
    /// Maximum number of handlers that run at the same time, each with a connection to PostgreSQL. One more connection is for a
    /// transaction that is being committed while the next handler runs.
    pub workers: NonZeroUsize,
    /// Maximum number of events in one transaction.
    pub batch: NonZeroUsize,
    /// Number of process crashes while a handler was at an event after which the event waits in the table. It is handled alone
    /// after each wait, and becomes a dead letter after the last one.
    pub crashes_max: u32,
    /// Maximum run time of a handler. A handler that has not returned by then is dropped, its transaction is rolled back, and the
    /// attempt has failed.
    pub handler_within: Duration,
    /// Maximum number of events of one partition in memory. At this number reading stops until half of them are left.
    pub queued_max: usize,
    /// Maximum size of the events of one partition in memory, in bytes. It works as [`Options::queued_max`].
    pub queued_bytes_max: usize,
    /// Time for which reading may stop before the partition is paused and the other partitions are read. librdkafka discards the
    /// records that it has fetched of a paused partition.
    pub pause_after: Duration,
    /// Number of consecutive events failing at their first attempt after which the cause is assumed to be outside the events. Until
    /// one succeeds, a few events at a time are tried, and none is given up. Events that are invalid themselves (`Failure::poison`)
    /// do not count.
    pub failures_in_a_row_max: u32,
    /// Maximum pause between those trials. The first pause is a tenth of it.
    pub guard_pause: Duration,
    /// Pause after PostgreSQL did not answer.
    pub unavailable_pause: Duration,
    /// Pause before a partition is taken again that another consumer has taken. Kafka normally reports the assigned consumer within
    /// this time.
    pub fenced_pause: Duration,
    /// Age from which an offset that Kafka has accepted is committed again.
    pub commit_again_after: Duration,
}

impl Options {
    /// Returns the maximum number of open transactions.
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
