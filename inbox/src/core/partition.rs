//! State of an assigned partition.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::job::{ParkedEvent, Tenure};
use super::lane::{Lane, LaneName, LaneState, Parked};
use super::offsets::Offsets;
use super::options::{Options, Order};
use super::suspects::Suspects;
use crate::event::Event;

/// State of a partition that is assigned to this consumer.
#[derive(Debug)]
pub(super) struct Partition {
    /// Number of the assignment, which stays the same when the partition is taken again.
    pub(super) assignment: u64,
    pub(super) tenure: Tenure,
    pub(super) standing: Standing,
    pub(super) offsets: Offsets,
    lanes: HashMap<LaneName, Lane>,
    ready: VecDeque<LaneName>,
    waiting: BTreeSet<(Instant, LaneName)>,
    /// Times before which events must not be handled, by offset.
    delayed: BTreeMap<i64, Instant>,
    /// Lanes with events in memory that must be written to the table, and lanes whose first event must be read from the table.
    pub(super) to_park: VecDeque<LaneName>,
    pub(super) to_load: VecDeque<LaneName>,
    /// Number of events in the table.
    pub(super) parked_count: usize,
    suspects: Suspects,
    queued_count: usize,
    queued_bytes: usize,
    fetching: Fetching,
}

/// Ownership of the partition in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Taking the partition is in progress.
    Taking,
    Owned,
    /// The partition was lost or could not be taken. It is taken again at this time, unless Kafka revokes it before.
    Without(Instant),
}

/// State of reading a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetching {
    On,
    /// Reading stops until there is room. If that is not before this time, the partition is paused.
    Full(Instant),
    Paused,
}

/// Work that can be begun.
#[derive(Debug)]
pub(super) enum Pick {
    /// Handling of the given number of first events of these lanes.
    Run(Vec<(LaneName, usize)>),
    /// Handling of the first event of the first lane, which may crash the process, while no other handler runs.
    Alone,
    /// Parking or giving up the first event of this lane: the process has crashed too often at it, and the event has not waited
    /// since.
    Crashed(LaneName, u32),
}

impl Partition {
    pub(super) fn new(assignment: u64, tenure: Tenure) -> Self {
        Self {
            assignment,
            tenure,
            standing: Standing::Taking,
            offsets: Offsets::default(),
            lanes: HashMap::new(),
            ready: VecDeque::new(),
            waiting: BTreeSet::new(),
            delayed: BTreeMap::new(),
            to_park: VecDeque::new(),
            to_load: VecDeque::new(),
            parked_count: 0,
            suspects: Suspects::default(),
            queued_count: 0,
            queued_bytes: 0,
            fetching: Fetching::On,
        }
    }

    /// Marks the partition as owned, with the suspects and parked events of the previous owner.
    pub(super) fn own(&mut self, now: Instant, order: Order, suspects: Suspects, parked: Vec<ParkedEvent>) {
        self.standing = Standing::Owned;
        self.suspects = suspects;
        self.parked_count = parked.len();
        let waited = self.forget_table();
        for event in parked {
            let Some(wait) = event.wait else { continue };
            let name = LaneName::of(order, event.key.as_deref(), event.offset);
            let lane = self.lanes.entry(name.clone()).or_default();
            if lane.parked == Parked::No {
                lane.parked = Parked::Before;
                self.hold(&name, now + wait);
            }
        }
        waited.iter().for_each(|name| self.continue_without_table(name));
    }

    /// Discards the state of the table, which another session may have changed. Returns the idle lanes that had events there.
    fn forget_table(&mut self) -> Vec<LaneName> {
        let is_idle = |lane: &Lane| matches!(lane.state, LaneState::Ready | LaneState::Waiting);
        let waited = self.lanes.iter().filter(|(_, lane)| lane.parked != Parked::No && is_idle(lane));
        let waited: Vec<LaneName> = waited.map(|(name, _)| name.clone()).collect();
        for name in &waited {
            // The event from the table is read again, if it is still there.
            if self.lanes.get(name).is_some_and(|lane| lane.parked == Parked::First) {
                self.leave(name, 1);
            }
        }
        self.lanes.values_mut().for_each(|lane| lane.parked = Parked::No);
        waited
    }

    /// Makes a waiting lane ready if none of its events is in the table any more.
    fn continue_without_table(&mut self, name: &LaneName) {
        let Some(lane) = self.lanes.get(name).filter(|lane| lane.parked == Parked::No) else { return };
        match lane.state {
            LaneState::Ready => self.ready.retain(|ready| ready != name),
            LaneState::Waiting => self.waiting.retain(|(_, waiting)| waiting != name),
            LaneState::Running | LaneState::Surrendering | LaneState::Parking | LaneState::Loading => return,
        }
        self.make_ready(name, false);
    }

    /// Returns the number of lanes with events in the table, and the timestamp of the oldest event in memory, in milliseconds since
    /// 1970.
    pub(super) fn open(&self) -> (usize, Option<i64>) {
        let blocked = self.lanes.values().filter(|lane| lane.parked != Parked::No).count();
        let oldest = self.lanes.values().filter_map(|lane| lane.events.front()?.timestamp_ms).min();
        (blocked, oldest)
    }

    /// Lets an idle lane wait for its events in the table until `until`. A job in progress on the lane ends first.
    fn hold(&mut self, name: &LaneName, until: Instant) {
        let Some(lane) = self.lanes.get(name) else { return };
        match lane.state {
            LaneState::Ready => self.ready.retain(|ready| ready != name),
            LaneState::Waiting => self.waiting.retain(|(_, waiting)| waiting != name),
            LaneState::Running | LaneState::Surrendering | LaneState::Parking | LaneState::Loading => return,
        }
        self.wait_parked(name, until);
    }

    pub(super) fn receive(&mut self, event: Arc<Event>, until: Option<Instant>, options: &Options) {
        let name = LaneName::of(options.order, event.key.as_deref(), event.offset);
        if !self.offsets.begin(event.offset) {
            let queued = self.lanes.get(&name).map(|lane| &lane.events);
            // The same record was read again, or another one of a topic that was created again.
            if queued.is_some_and(|events| events.contains(&event)) {
                return;
            }
            self.offsets.begin_another(event.offset);
        }
        self.delayed.extend(until.map(|until| (event.offset, until)));
        self.queued_count += 1;
        self.queued_bytes += event.size();
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.events.push_back(event);
        match (lane.state, lane.parked) {
            (LaneState::Ready, _) if lane.events.len() == 1 => self.ready.push_back(name),
            (LaneState::Waiting, Parked::Before) => self.to_park.push_back(name),
            _ => {}
        }
    }

    /// Returns the work to begin next. `None` if no lane is ready or the partition is not owned.
    pub(super) fn pick(&mut self, now: Instant, options: &Options) -> Option<Pick> {
        if self.standing != Standing::Owned {
            return None;
        }
        self.hold_back(now);
        let name = self.ready.front()?.clone();
        let (begun, waited) = self.lanes.get(&name).map_or((0, 0), |lane| (self.begun(lane, 0), lane.waited));
        if begun >= options.crashes_max && begun > waited {
            self.ready.pop_front();
            return Some(Pick::Crashed(name, begun));
        }
        if begun.saturating_add(1) >= options.crashes_max && begun > 0 {
            return Some(Pick::Alone);
        }
        Some(Pick::Run(self.pick_batch(options.batch.get())))
    }

    /// Lets the first ready lanes wait whose first event is delayed.
    fn hold_back(&mut self, now: Instant) {
        while let Some(name) = self.ready.front()
            && let Some(until) = self.lanes.get(name).and_then(|lane| self.delay(lane, 0))
            && until > now
            && let Some(name) = self.ready.pop_front()
        {
            self.wait(&name, until);
        }
    }

    fn delay(&self, lane: &Lane, index: usize) -> Option<Instant> {
        self.delayed.get(&lane.events.get(index)?.offset).copied()
    }

    /// Pops the lane that [`Pick::Alone`] refers to.
    pub(super) fn begin_alone(&mut self) -> Option<(LaneName, usize)> {
        self.ready.pop_front().map(|name| (name, 1))
    }

    /// Pops the first ready lane, and further ones while all their events may share a transaction.
    fn pick_batch(&mut self, batch: usize) -> Vec<(LaneName, usize)> {
        let mut picked = Vec::new();
        let mut left = batch;
        while left > 0
            && let Some(lane) = self.ready.front().and_then(|name| self.lanes.get(name))
        {
            let single = lane.is_single() || self.begun(lane, 0) > 0 || self.delay(lane, 0).is_some();
            if single && !picked.is_empty() {
                break;
            }
            let count = if single { 1 } else { self.shared(lane, left) };
            left -= count;
            picked.extend(self.ready.pop_front().map(|name| (name, count)));
            if single {
                break;
            }
        }
        picked
    }

    /// Returns the number of first events that may share a transaction, at most `max` and at least 1.
    fn shared(&self, lane: &Lane, max: usize) -> usize {
        let count = lane.events.len().min(max);
        let is_single = |index: &usize| self.begun(lane, *index) > 0 || self.delay(lane, *index).is_some();
        (0..count).find(is_single).unwrap_or(count).max(1)
    }

    fn begun(&self, lane: &Lane, index: usize) -> u32 {
        lane.events.get(index).map_or(0, |event| self.begun_before(event))
    }

    /// Returns the number of process crashes while a handler was at this event.
    pub(super) fn begun_before(&self, event: &Event) -> u32 {
        self.suspects.begun(event.offset)
    }

    pub(super) fn lane_mut(&mut self, name: &LaneName) -> Option<&mut Lane> {
        self.lanes.get_mut(name)
    }

    /// Marks a picked lane as running. Returns its first `count` events, and the number of the attempt.
    pub(super) fn set_running(&mut self, name: &LaneName, count: usize) -> (Vec<Arc<Event>>, u32) {
        let Some(lane) = self.lanes.get_mut(name) else { return (Vec::new(), 1) };
        lane.state = LaneState::Running;
        (lane.events.iter().take(count).cloned().collect(), lane.failed + 1)
    }

    /// Ends the first events of a lane, which are done or given up.
    pub(super) fn end(&mut self, name: &LaneName, count: usize) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        if lane.parked == Parked::First {
            lane.parked = Parked::Before;
            self.parked_count = self.parked_count.saturating_sub(1);
        }
        self.leave(name, count);
        self.make_ready(name, false);
    }

    /// Makes the lane read the table next: it may have events that come before those in memory.
    pub(super) fn look_into_table(&mut self, name: &LaneName) {
        if let Some(lane) = self.lanes.get_mut(name)
            && lane.parked == Parked::No
        {
            lane.parked = Parked::Before;
        }
    }

    /// Removes the first events of a lane from memory, so that their offsets may be committed.
    pub(super) fn leave(&mut self, name: &LaneName, count: usize) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        for event in lane.advance(count) {
            self.offsets.end(event.offset);
            self.suspects.end(event.offset);
            self.delayed.remove(&event.offset);
            self.queued_count -= 1;
            self.queued_bytes -= event.size();
        }
    }

    /// Removes the first event of a lane, a dead letter, from memory. It is in the table, and the later events wait behind it.
    pub(super) fn block(&mut self, name: &LaneName, until: Instant) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        self.parked_count += usize::from(lane.parked == Parked::No);
        lane.parked = Parked::Before;
        self.leave(name, 1);
        self.wait_parked(name, until);
    }

    /// Adds the first event of a lane, which was read from the table.
    pub(super) fn enter(&mut self, name: &LaneName, event: Arc<Event>, attempts: u32, begun: u32) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        self.suspects.raise(event.offset, begun);
        lane.waited = begun;
        self.queued_count += 1;
        self.queued_bytes += event.size();
        lane.events.push_front(event);
        lane.failed = attempts;
        lane.parked = Parked::First;
        self.make_ready(name, true);
    }

    /// Makes a lane ready, before the other lanes if `first`. A lane with earlier events in the table reads these first, and an
    /// empty lane is removed.
    pub(super) fn make_ready(&mut self, name: &LaneName, first: bool) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.state = LaneState::Ready;
        match lane.parked {
            Parked::Before => {
                lane.state = LaneState::Loading;
                self.to_load.push_back(name.clone());
            }
            Parked::No | Parked::First if lane.events.is_empty() => drop(self.lanes.remove(name)),
            Parked::No | Parked::First if first => self.ready.push_front(name.clone()),
            Parked::No | Parked::First => self.ready.push_back(name.clone()),
        }
    }

    /// Clears the suspicion against the first event: its handler has ended, so the event did not crash the process.
    pub(super) fn forget_begun(&mut self, name: &LaneName) {
        if let Some(event) = self.lanes.get(name).and_then(|lane| lane.events.front()) {
            self.suspects.clear(event.offset);
        }
    }

    pub(super) fn wait(&mut self, name: &LaneName, until: Instant) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.state = LaneState::Waiting;
            lane.until = Some(until);
            self.waiting.insert((until, name.clone()));
        }
    }

    /// Lets a lane wait that continues from the table. Its events in memory are queued for writing to the table.
    pub(super) fn wait_parked(&mut self, name: &LaneName, until: Instant) {
        self.wait(name, until);
        if self.lanes.get(name).is_some_and(|lane| !lane.events.is_empty()) {
            self.to_park.push_back(name.clone());
        }
    }

    /// Returns the events to write to the table next, at most `max`, for a lane of [`Self::to_park`]. `None` if the lane no longer
    /// waits for the table.
    pub(super) fn begin_park(&mut self, name: &LaneName, max: usize) -> Option<Vec<Arc<Event>>> {
        let lane = self.lanes.get_mut(name)?;
        if lane.state != LaneState::Waiting || lane.parked != Parked::Before || lane.events.is_empty() {
            return None;
        }
        lane.state = LaneState::Parking;
        if let Some(until) = lane.until {
            self.waiting.remove(&(until, name.clone()));
        }
        Some(lane.events.iter().take(max).cloned().collect())
    }

    /// Makes the lanes ready whose wait is over, before the other lanes if `first`.
    pub(super) fn wake(&mut self, now: Instant, first: bool) {
        while let Some((until, _)) = self.waiting.first()
            && *until <= now
            && let Some((_, name)) = self.waiting.pop_first()
        {
            self.make_ready(&name, first);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let again = match self.standing {
            Standing::Without(until) => Some(until),
            Standing::Taking | Standing::Owned => None,
        };
        let pause = match self.fetching {
            Fetching::Full(until) => Some(until),
            Fetching::On | Fetching::Paused => None,
        };
        self.waiting.first().map(|(until, _)| *until).into_iter().chain(again).chain(pause).min()
    }

    /// Updates the state of reading. Returns `Some(true)` if the partition must be paused, `Some(false)` if it must be resumed, and
    /// `None` if neither.
    pub(super) fn change_pause(&mut self, now: Instant, options: &Options) -> Option<bool> {
        let is_over = |share: usize| {
            self.queued_count >= options.queued_max / share
                || self.queued_bytes >= options.queued_bytes_max / share
        };
        let (fetching, change) = match self.fetching {
            Fetching::On if is_over(1) => (Fetching::Full(now + options.pause_after), None),
            Fetching::Full(_) if !is_over(2) => (Fetching::On, None),
            Fetching::Full(until) if until <= now => (Fetching::Paused, Some(true)),
            Fetching::Paused if !is_over(2) => (Fetching::On, Some(false)),
            same => (same, None),
        };
        self.fetching = fetching;
        change
    }

    /// Reports whether reading must stop until there is room.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.fetching, Fetching::Full(_))
    }
}
