//! Events that are handled one after the other.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::options::Order;
use crate::event::Event;

/// Name of a lane. Events with the same name are handled one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LaneName {
    /// Key of the record.
    Key(Arc<[u8]>),
    /// All events of the partition.
    Partition,
    /// One event, by its offset.
    Offset(i64),
}

impl LaneName {
    pub(super) fn of(order: Order, key: Option<&[u8]>, offset: i64) -> Self {
        match (order, key) {
            (Order::PerPartition, _) => Self::Partition,
            (Order::PerKey, Some(key)) => Self::Key(key.into()),
            (Order::PerKey, None) | (Order::None, _) => Self::Offset(offset),
        }
    }
}

/// Events that must be handled one after the other.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Events that have not ended, in their order.
    pub(super) events: VecDeque<Arc<Event>>,
    pub(super) state: LaneState,
    /// Number of failed attempts of the first event.
    pub(super) failed: u32,
    /// Number of failed attempts of the first event while everything failed. They are not charged to the event.
    pub(super) trials: u32,
    /// Number of consecutive repeats of the first event that were not charged.
    pub(super) repeats: u32,
    /// Number of process crashes after which the first event has waited.
    pub(super) waited: u32,
    /// Number of first events that are handled alone, because a batch with them failed.
    pub(super) alone: usize,
    pub(super) parked: Parked,
    /// End of the lane's wait.
    pub(super) until: Option<Instant>,
}

/// Place of a lane's events in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Parked {
    /// No event is in the table.
    #[default]
    No,
    /// Events in the table come before all events in memory.
    Before,
    /// The first event in memory is in the table, and possibly events between it and the other ones in memory.
    First,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LaneState {
    /// In the list of ready lanes, or empty.
    #[default]
    Ready,
    /// A handler is running.
    Running,
    /// Waiting until the next attempt.
    Waiting,
    /// The first event is being sent to its retry topic or the dead letter topic.
    Surrendering,
    /// Events are being written to the table.
    Parking,
    /// The first event is being read from the table.
    Loading,
}

impl Lane {
    /// Reports whether the first event must not share a transaction.
    pub(super) fn is_single(&self) -> bool {
        self.failed > 0 || self.alone > 0 || self.parked != Parked::No
    }

    /// Removes and returns the first `count` events, which have ended, and resets the counters of the first event.
    pub(super) fn advance(&mut self, count: usize) -> Vec<Arc<Event>> {
        (self.failed, self.trials, self.repeats, self.waited) = (0, 0, 0, 0);
        self.alone = self.alone.saturating_sub(count);
        let count = count.min(self.events.len());
        self.events.drain(..count).collect()
    }
}
