use std::num::NonZeroUsize;
use std::time::Duration;

use super::retry::Retry;

/// What is kept in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Events with the same key, which is what Kafka promises too. Events without a key have no order.
    #[default]
    PerKey,
    /// All events of a partition.
    PerPartition,
    /// Nothing.
    None,
}

/// How a consumer works.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is kept in order.
    pub order: Order,
    /// When a handler that failed is called again.
    pub retry: Retry,
    /// The most handlers at work at a time, each with a connection to PostgreSQL.
    pub workers: NonZeroUsize,
    /// The most events in one transaction.
    pub batch: NonZeroUsize,
    /// An event that ended the process so often without ending itself is given up.
    pub crashes_max: u32,
    /// Events of one partition that wait in memory; at this number no more of it are fetched.
    pub queued_max: usize,
    /// The same in bytes.
    pub queued_bytes_max: usize,
    /// When so many events in a row fail at their first attempt, the cause is not in the events: nothing more is begun or
    /// given up until one succeeds.
    pub failures_in_a_row_max: u32,
    /// How long that lasts before another is tried.
    pub guard_pause: Duration,
    /// How long to wait when PostgreSQL does not answer.
    pub unavailable_pause: Duration,
    /// How long to wait before a partition is taken again that another consumer has taken. By then Kafka has told whose
    /// it is.
    pub fenced_pause: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::PerKey,
            retry: Retry::default(),
            workers: NonZeroUsize::new(8).unwrap_or(NonZeroUsize::MIN),
            batch: NonZeroUsize::MIN,
            crashes_max: 3,
            queued_max: 5000,
            queued_bytes_max: 2 << 20,
            failures_in_a_row_max: 64,
            guard_pause: Duration::from_secs(5),
            unavailable_pause: Duration::from_millis(500),
            fenced_pause: Duration::from_secs(5),
        }
    }
}
