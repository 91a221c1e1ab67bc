use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::job::{ParkedEvent, Tenure};
use super::lane::{Lane, LaneName, LaneState, Parked};
use super::offsets::Offsets;
use super::options::{Options, Order};
use super::suspects::Suspects;
use crate::event::Event;

/// What a consumer knows of a partition that is assigned to it.
#[derive(Debug)]
pub(super) struct Partition {
    /// Stays the same when the partition is taken again.
    pub(super) assignment: u64,
    pub(super) tenure: Tenure,
    pub(super) standing: Standing,
    pub(super) offsets: Offsets,
    lanes: HashMap<LaneName, Lane>,
    ready: VecDeque<LaneName>,
    waiting: BTreeSet<(Instant, LaneName)>,
    /// Events that must not be handled before a time, by offset.
    delayed: BTreeMap<i64, Instant>,
    /// Lanes with events in memory that belong into the table, and lanes whose first event is to be read from there.
    pub(super) to_park: VecDeque<LaneName>,
    pub(super) to_load: VecDeque<LaneName>,
    /// Events in the table.
    pub(super) parked_count: usize,
    suspects: Suspects,
    queued_count: usize,
    queued_bytes: usize,
    fetching: Fetching,
}

/// Whether this consumer may change anything in the partition's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It asks for it.
    Taking,
    Owned,
    /// It was taken away, or could not be had. It is taken again at this time, unless Kafka revokes it before.
    Without(Instant),
}

/// Whether more of a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fetching {
    On,
    /// Nothing is read until there is room, and if that is not before this time, the partition is paused.
    Full(Instant),
    Paused,
}

/// What can be begun.
#[derive(Debug)]
pub(super) enum Pick {
    /// So many of the first events of these lanes.
    Run(Vec<(LaneName, usize)>),
    /// The first event of the first lane, while no other handler is at work in the process: it may be the one that ends it.
    Alone,
    /// The process has ended too often in the middle of the first event of this lane, and the event has not waited since.
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

    /// From now on it is this consumer's, with what the one before has left.
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

    /// Forgets which events are in the table: another session may have changed them. Returns the lanes that nothing is at work on
    /// and that had some.
    fn forget_table(&mut self) -> Vec<LaneName> {
        let is_idle = |lane: &Lane| matches!(lane.state, LaneState::Ready | LaneState::Waiting);
        let waited = self.lanes.iter().filter(|(_, lane)| lane.parked != Parked::No && is_idle(lane));
        let waited: Vec<LaneName> = waited.map(|(name, _)| name.clone()).collect();
        for name in &waited {
            // The event that was read from there is read again, if it is still there.
            if self.lanes.get(name).is_some_and(|lane| lane.parked == Parked::First) {
                self.leave(name, 1);
            }
        }
        self.lanes.values_mut().for_each(|lane| lane.parked = Parked::No);
        waited
    }

    /// A lane that has waited for its events in the table, where there is none any more, waits no longer.
    fn continue_without_table(&mut self, name: &LaneName) {
        let Some(lane) = self.lanes.get(name).filter(|lane| lane.parked == Parked::No) else { return };
        match lane.state {
            LaneState::Ready => self.ready.retain(|ready| ready != name),
            LaneState::Waiting => self.waiting.retain(|(_, waiting)| waiting != name),
            LaneState::Running | LaneState::Surrendering | LaneState::Parking | LaneState::Loading => return,
        }
        self.make_ready(name, false);
    }

    /// How many lanes have events in the table, and when the oldest event in memory was written.
    pub(super) fn open(&self) -> (usize, Option<i64>) {
        let blocked = self.lanes.values().filter(|lane| lane.parked != Parked::No).count();
        let oldest = self.lanes.values().filter_map(|lane| lane.events.front()?.timestamp_ms).min();
        (blocked, oldest)
    }

    /// The lane goes on from the table. If something is at work on it, that ends first.
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
        if !self.offsets.begin(event.offset) {
            return;
        }
        self.delayed.extend(until.map(|until| (event.offset, until)));
        self.queued_count += 1;
        self.queued_bytes += event.size();
        let name = LaneName::of(options.order, event.key.as_deref(), event.offset);
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.events.push_back(event);
        match (lane.state, lane.parked) {
            (LaneState::Ready, _) if lane.events.len() == 1 => self.ready.push_back(name),
            (LaneState::Waiting, Parked::Before) => self.to_park.push_back(name),
            _ => {}
        }
    }

    /// What to begin next, unless there is nothing or it may not begin.
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

    /// Lets the first lanes wait whose first event must.
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

    /// The lane that [`Pick::Alone`] meant is begun.
    pub(super) fn begin_alone(&mut self) -> Option<(LaneName, usize)> {
        self.ready.pop_front().map(|name| (name, 1))
    }

    /// At least the first lane, and more of them while all their events may share a transaction.
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

    /// How many of the first events may share a transaction.
    fn shared(&self, lane: &Lane, max: usize) -> usize {
        let count = lane.events.len().min(max);
        let is_single = |index: &usize| self.begun(lane, *index) > 0 || self.delay(lane, *index).is_some();
        (0..count).find(is_single).unwrap_or(count).max(1)
    }

    fn begun(&self, lane: &Lane, index: usize) -> u32 {
        lane.events.get(index).map_or(0, |event| self.begun_before(event))
    }

    /// How often a process has ended in the middle of this event.
    pub(super) fn begun_before(&self, event: &Event) -> u32 {
        self.suspects.begun(event.offset)
    }

    pub(super) fn lane_mut(&mut self, name: &LaneName) -> Option<&mut Lane> {
        self.lanes.get_mut(name)
    }

    /// The first events of a lane that has been picked, for a handler.
    pub(super) fn set_running(&mut self, name: &LaneName, count: usize) -> (Vec<Arc<Event>>, u32) {
        let Some(lane) = self.lanes.get_mut(name) else { return (Vec::new(), 1) };
        lane.state = LaneState::Running;
        (lane.events.iter().take(count).cloned().collect(), lane.failed + 1)
    }

    /// The first events of a lane have ended: done, or given up.
    pub(super) fn end(&mut self, name: &LaneName, count: usize) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        if lane.parked == Parked::First {
            lane.parked = Parked::Before;
            self.parked_count = self.parked_count.saturating_sub(1);
        }
        self.leave(name, count);
        self.make_ready(name, false);
    }

    /// There may be events of the lane in the table that come before those in memory.
    pub(super) fn look_into_table(&mut self, name: &LaneName) {
        if let Some(lane) = self.lanes.get_mut(name)
            && lane.parked == Parked::No
        {
            lane.parked = Parked::Before;
        }
    }

    /// The first events of a lane are in memory no longer, and nothing keeps their offsets from being committed.
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

    /// The first event of a lane is a dead letter, and in the table so that the others wait behind it.
    pub(super) fn block(&mut self, name: &LaneName, until: Instant) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        self.parked_count += usize::from(lane.parked == Parked::No);
        lane.parked = Parked::Before;
        self.leave(name, 1);
        self.wait_parked(name, until);
    }

    /// The first event of a lane has been read from the table.
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

    /// The lane can go on; before the others when it was begun before.
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

    /// The first event has failed, in a handler that has ended: the process is not in danger from it.
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

    /// The same for a lane that goes on from the table. What has come meanwhile goes there too.
    pub(super) fn wait_parked(&mut self, name: &LaneName, until: Instant) {
        self.wait(name, until);
        if self.lanes.get(name).is_some_and(|lane| !lane.events.is_empty()) {
            self.to_park.push_back(name.clone());
        }
    }

    /// The events that are written to the table next, of a lane in [`Self::to_park`]. `None` when it goes on without that.
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

    /// Makes those ready whose wait is over: before the others, or behind them.
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

    /// Whether fetching is to be paused or to go on; `None` when it stays as it is.
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

    /// Whether nothing is to be read for now.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.fetching, Fetching::Full(_))
    }
}
