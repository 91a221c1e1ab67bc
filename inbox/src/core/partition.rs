use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::job::Tenure;
use super::lane::{Lane, LaneName, LaneState};
use super::offsets::Offsets;
use super::options::Options;
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
    /// How often a handler has begun an event and neither ended nor failed: the process ended.
    begun: BTreeMap<i64, u32>,
    queued_count: usize,
    queued_bytes: usize,
    is_paused: bool,
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

/// What can be begun.
#[derive(Debug)]
pub(super) enum Pick {
    /// So many of the first events of these lanes.
    Run(Vec<(LaneName, usize)>),
    /// The first event of the first lane, while no other handler is at work in the process: it may be the one that ends it.
    Alone,
    /// The first event of this lane has ended the process too often.
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
            begun: BTreeMap::new(),
            queued_count: 0,
            queued_bytes: 0,
            is_paused: false,
        }
    }

    /// From now on it is this consumer's.
    pub(super) fn own(&mut self, begun: BTreeMap<i64, u32>) {
        self.standing = Standing::Owned;
        self.begun = begun;
    }

    pub(super) fn receive(&mut self, event: Arc<Event>, options: &Options) {
        if !self.offsets.begin(event.offset) {
            return;
        }
        self.queued_count += 1;
        self.queued_bytes += event.size();
        let name = LaneName::of(options.order, &event);
        let lane = self.lanes.entry(name.clone()).or_default();
        lane.events.push_back(event);
        if lane.events.len() == 1 && lane.state == LaneState::Ready {
            self.ready.push_back(name);
        }
    }

    /// What to begin next, unless there is nothing or it may not begin.
    pub(super) fn pick(&mut self, options: &Options) -> Option<Pick> {
        if self.standing != Standing::Owned {
            return None;
        }
        let name = self.ready.front()?.clone();
        let begun = self.lanes.get(&name).map_or(0, |lane| self.begun(lane, 0));
        if begun >= options.crashes_max {
            self.ready.pop_front();
            return Some(Pick::Crashed(name, begun));
        }
        if begun.saturating_add(1) == options.crashes_max && begun > 0 {
            return Some(Pick::Alone);
        }
        Some(Pick::Run(self.pick_batch(options.batch.get())))
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
            let single = lane.is_single() || self.begun(lane, 0) > 0;
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
        (0..count).find(|index| self.begun(lane, *index) > 0).unwrap_or(count).max(1)
    }

    fn begun(&self, lane: &Lane, index: usize) -> u32 {
        lane.events.get(index).map_or(0, |event| self.begun_before(event))
    }

    /// How often a process has ended in the middle of this event.
    pub(super) fn begun_before(&self, event: &Event) -> u32 {
        self.begun.get(&event.offset).copied().unwrap_or(0)
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
        for event in lane.advance(count) {
            self.offsets.end(event.offset);
            self.begun.remove(&event.offset);
            self.queued_count -= 1;
            self.queued_bytes -= event.size();
        }
        if lane.events.is_empty() {
            self.lanes.remove(name);
        } else {
            self.make_ready(name, false);
        }
    }

    /// The lane can be begun; before the others when it was begun before.
    pub(super) fn make_ready(&mut self, name: &LaneName, first: bool) {
        let Some(lane) = self.lanes.get_mut(name) else { return };
        lane.state = LaneState::Ready;
        match first {
            true => self.ready.push_front(name.clone()),
            false => self.ready.push_back(name.clone()),
        }
    }

    /// The first event has failed, in a handler that has ended: the process is not in danger from it.
    pub(super) fn forget_begun(&mut self, name: &LaneName) {
        if let Some(event) = self.lanes.get(name).and_then(|lane| lane.events.front()) {
            self.begun.remove(&event.offset);
        }
    }

    pub(super) fn wait(&mut self, name: &LaneName, until: Instant) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.state = LaneState::Waiting;
            self.waiting.insert((until, name.clone()));
        }
    }

    /// Makes those ready whose wait is over.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((until, _)) = self.waiting.first()
            && *until <= now
            && let Some((_, name)) = self.waiting.pop_first()
        {
            self.make_ready(&name, true);
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        let again = match self.standing {
            Standing::Without(until) => Some(until),
            Standing::Taking | Standing::Owned => None,
        };
        self.waiting.first().map(|(until, _)| *until).into_iter().chain(again).min()
    }

    /// Whether fetching is to be paused or to go on; `None` when it stays as it is.
    pub(super) fn change_pause(&mut self, options: &Options) -> Option<bool> {
        let is_over = |share: usize| {
            self.queued_count >= options.queued_max / share
                || self.queued_bytes >= options.queued_bytes_max / share
        };
        let paused = if self.is_paused { is_over(2) } else { is_over(1) };
        (paused != self.is_paused).then(|| {
            self.is_paused = paused;
            paused
        })
    }
}
