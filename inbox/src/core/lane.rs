use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use super::options::Order;
use crate::event::Event;

/// What a lane is named by: events with the same name are handled one after the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LaneName {
    /// The record's key.
    Key(Arc<[u8]>),
    /// All of the partition.
    Partition,
    /// One event alone.
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

/// The events that must be handled one after the other.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Those that have not ended, in their order.
    pub(super) events: VecDeque<Arc<Event>>,
    pub(super) state: LaneState,
    /// Failed attempts of the first event.
    pub(super) failed: u32,
    /// Failed attempts of the first event while everything failed. They are not charged to it.
    pub(super) trials: u32,
    /// Repeats of the first event that were not charged, in a row.
    pub(super) repeats: u32,
    /// The first event has waited after a process had ended so often in the middle of it.
    pub(super) waited: u32,
    /// So many of the first events are handled alone, since a batch with them failed.
    pub(super) alone: usize,
    pub(super) parked: Parked,
    /// When a parked lane goes on.
    pub(super) until: Option<Instant>,
}

/// Which events of a lane are in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Parked {
    /// None.
    #[default]
    No,
    /// Those that come before all that are in memory.
    Before,
    /// The first one in memory, and maybe some that come between it and the others.
    First,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum LaneState {
    /// In the list of those that are ready, or empty.
    #[default]
    Ready,
    /// A handler is at it.
    Running,
    /// Until the next attempt.
    Waiting,
    /// The first event is on its way to the dead letters.
    Surrendering,
    /// Events are being written to the table.
    Parking,
    /// The first event is being read from the table.
    Loading,
}

impl Lane {
    /// Whether its first event must not share a transaction.
    pub(super) fn is_single(&self) -> bool {
        self.failed > 0 || self.alone > 0 || self.parked != Parked::No
    }

    /// The first events have ended.
    pub(super) fn advance(&mut self, count: usize) -> Vec<Arc<Event>> {
        (self.failed, self.trials, self.repeats, self.waited) = (0, 0, 0, 0);
        self.alone = self.alone.saturating_sub(count);
        let count = count.min(self.events.len());
        self.events.drain(..count).collect()
    }
}
