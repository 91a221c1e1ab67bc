//! What a consumer decides between two waits: which event is begun next, again, or given up, and up to where offsets may be
//! committed. No sockets and no clock: times and chance are arguments.

mod guard;
mod job;
mod lane;
mod offsets;
mod options;
mod partition;
mod retry;
#[cfg(test)]
mod tests;

pub use job::{FailureKind, PartitionId, Reason};
pub use options::{Options, Order};
pub use retry::Retry;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;

use crate::event::Event;
use guard::{Allowance, Guard};
pub(crate) use job::{Job, JobId, Outcome, Surrender, Tenure};
use lane::{LaneName, LaneState};
use partition::{Partition, Pick, Standing};

/// What has happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// Kafka has given the partition to this consumer.
    Assigned(PartitionId),
    /// PostgreSQL has too, and says how often the process has ended in the middle of an event, by its offset.
    Taken { tenure: Tenure, begun: BTreeMap<i64, u32> },
    /// PostgreSQL has not.
    NotTaken { tenure: Tenure },
    /// Kafka has taken it away.
    Revoked(PartitionId),
    /// A record was read.
    Received(Arc<Event>),
    /// A handler has ended.
    Ended { id: JobId, outcome: Outcome },
    /// An event is with the dead letters.
    Surrendered { id: JobId },
    /// Begin nothing more.
    Stop,
    /// Time has passed.
    Wake,
}

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    /// Take the partition in PostgreSQL, away from whoever had it.
    Take(Tenure),
    /// Call the handler.
    Run(Job),
    /// Write a dead letter.
    Surrender(Surrender),
    /// Fetch no more of the partition.
    Pause(PartitionId),
    /// Fetch it again.
    Resume(PartitionId),
}

/// The state of a consumer. See the module.
#[derive(Debug)]
pub(crate) struct Core {
    options: Options,
    partitions: BTreeMap<PartitionId, Partition>,
    jobs: HashMap<JobId, Begun>,
    /// Handlers at work.
    running: usize,
    /// One of them may end the process, and so is at work alone.
    is_alone: bool,
    guard: Guard,
    /// PostgreSQL does not answer: nothing is begun before this.
    unavailable_until: Option<Instant>,
    is_stopping: bool,
    counter: u64,
    /// The partition that was last begun from, so that the next one follows.
    turn_of: Option<PartitionId>,
    rng: Rng,
}

/// What is at work or on its way.
#[derive(Debug)]
struct Begun {
    assignment: u64,
    partition: PartitionId,
    lanes: Vec<(LaneName, usize)>,
}

impl Core {
    /// Nothing is assigned. `seed` is for the jitter of retries.
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        let guard = Guard::new(options.failures_in_a_row_max, options.guard_pause);
        Self {
            options,
            partitions: BTreeMap::new(),
            jobs: HashMap::new(),
            running: 0,
            is_alone: false,
            guard,
            unavailable_until: None,
            is_stopping: false,
            counter: 0,
            turn_of: None,
            rng: Rng::with_seed(seed),
        }
    }

    /// Takes in what has happened; what is to be done about it.
    pub(crate) fn turn(&mut self, now: Instant, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Assigned(partition) => self.assign(partition, &mut actions),
            Input::Taken { tenure, begun } => {
                if let Some(partition) = self.held(&tenure) {
                    partition.own(begun);
                }
            }
            Input::NotTaken { tenure } => {
                let until = now + self.options.unavailable_pause;
                if let Some(partition) = self.held(&tenure) {
                    partition.standing = Standing::Without(until);
                }
            }
            Input::Revoked(partition) => drop(self.partitions.remove(&partition)),
            Input::Received(event) => self.receive(event),
            Input::Ended { id, outcome } => self.ended(now, id, outcome, &mut actions),
            Input::Surrendered { id } => self.surrendered(id),
            Input::Stop => self.is_stopping = true,
            Input::Wake => {}
        }
        self.wake(now, &mut actions);
        self.begin(now, &mut actions);
        self.pause_and_resume(&mut actions);
        actions
    }

    /// When [`Input::Wake`] is due, if nothing happens before.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let partitions = self.partitions.values().filter_map(Partition::next_wake);
        partitions.chain(self.guard.next_wake()).chain(self.unavailable_until).min()
    }

    /// Up to where each partition may be committed, when that has changed since it was last asked.
    pub(crate) fn take_commits(&mut self) -> Vec<(PartitionId, i64)> {
        let partitions = self.partitions.iter_mut();
        partitions
            .filter_map(|(id, partition)| Some((id.clone(), partition.offsets.take_commit()?)))
            .collect()
    }

    /// Up to where each partition may be committed.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&PartitionId, i64)> {
        self.partitions.iter().filter_map(|(id, partition)| Some((id, partition.offsets.contiguous_end()?)))
    }

    /// Whether nothing is at work or on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The partition, if this is how it is held.
    fn held(&mut self, tenure: &Tenure) -> Option<&mut Partition> {
        self.partitions.get_mut(&tenure.partition).filter(|partition| partition.tenure == *tenure)
    }

    fn assign(&mut self, id: PartitionId, actions: &mut Vec<Action>) {
        let assignment = self.count();
        let tenure = Tenure { partition: id.clone(), number: assignment };
        actions.push(Action::Take(tenure.clone()));
        self.partitions.insert(id, Partition::new(assignment, tenure));
    }

    /// Ignores what was fetched before the partition was revoked.
    fn receive(&mut self, event: Arc<Event>) {
        let id = PartitionId { topic: Arc::clone(&event.topic), partition: event.partition };
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.receive(event, &self.options);
        }
    }

    fn ended(&mut self, now: Instant, id: JobId, outcome: Outcome, actions: &mut Vec<Action>) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        self.running = self.running.saturating_sub(1);
        self.is_alone = false;
        match &outcome {
            Outcome::Done => self.guard.succeeded(),
            Outcome::Unavailable => self.unavailable_until = Some(now + self.options.unavailable_pause),
            Outcome::Failed { .. } | Outcome::Fenced => {}
        }
        let partition = self.partitions.get_mut(&begun.partition);
        let Some(partition) = partition.filter(|partition| partition.assignment == begun.assignment) else {
            return;
        };
        match outcome {
            Outcome::Done => begun.lanes.iter().for_each(|(name, count)| partition.end(name, *count)),
            Outcome::Unavailable => again(partition, &begun.lanes),
            Outcome::Fenced => {
                partition.standing = Standing::Without(now + self.options.fenced_pause);
                again(partition, &begun.lanes);
            }
            Outcome::Failed { kind, error } => match begun.lanes.as_slice() {
                [(name, 1)] => self.failed(now, &begun.partition, name, kind, error, actions),
                lanes => one_by_one(partition, lanes),
            },
        }
    }

    /// The attempt of a single event has failed.
    fn failed(
        &mut self,
        now: Instant,
        id: &PartitionId,
        name: &LaneName,
        kind: FailureKind,
        error: String,
        actions: &mut Vec<Action>,
    ) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        partition.forget_begun(name);
        let Some(lane) = partition.lane_mut(name) else { return };
        lane.failed = lane.failed.saturating_add(1);
        let failed = lane.failed;
        if self.guard.failed(now, failed == 1) {
            tracing::error!(
                error,
                "so many events failed in a row that the cause is not in them: no more are begun, none is given up"
            );
        }
        let wait = match kind {
            FailureKind::Poison => None,
            FailureKind::Retry => self.options.retry.wait(failed, self.rng.f64()),
        };
        // Tried again as long as nothing else succeeds either.
        let wait = wait.or((!self.guard.is_closed()).then_some(self.options.guard_pause));
        match (wait, kind) {
            (Some(wait), _) => partition.wait(name, now + wait),
            (None, FailureKind::Retry) => self.surrender(id, name, Reason::Exhausted, failed, error, actions),
            (None, FailureKind::Poison) => self.surrender(id, name, Reason::Poison, failed, error, actions),
        }
    }

    fn surrender(
        &mut self,
        id: &PartitionId,
        name: &LaneName,
        reason: Reason,
        attempts: u32,
        error: String,
        actions: &mut Vec<Action>,
    ) {
        let job = JobId(self.count());
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
        let Some(lane) = partition.lane_mut(name) else { return };
        let Some(event) = lane.events.front().cloned() else { return };
        lane.state = LaneState::Surrendering;
        let begun = Begun { assignment, partition: id.clone(), lanes: vec![(name.clone(), 1)] };
        self.jobs.insert(job, begun);
        actions.push(Action::Surrender(Surrender { id: job, tenure, event, reason, attempts, error }));
    }

    fn surrendered(&mut self, id: JobId) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        let partition = self.partitions.get_mut(&begun.partition);
        if let Some(partition) = partition.filter(|partition| partition.assignment == begun.assignment) {
            begun.lanes.iter().for_each(|(name, count)| partition.end(name, *count));
        }
    }

    /// What was waited for has come.
    fn wake(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.unavailable_until.is_some_and(|until| until <= now) {
            self.unavailable_until = None;
        }
        let mut counter = self.counter;
        for (id, partition) in &mut self.partitions {
            partition.wake(now);
            if matches!(partition.standing, Standing::Without(until) if until <= now) {
                counter += 1;
                partition.tenure = Tenure { partition: id.clone(), number: counter };
                partition.standing = Standing::Taking;
                actions.push(Action::Take(partition.tenure.clone()));
            }
        }
        self.counter = counter;
    }

    /// Begins what may begin.
    fn begin(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while self.may_begin(now) {
            let Some((id, pick)) = self.pick() else { return };
            match pick {
                Pick::Run(lanes) => self.run(&id, lanes, actions),
                Pick::Crashed(name, begun) => {
                    let error = "the process ended each time while a handler was at this event".to_owned();
                    self.surrender(&id, &name, Reason::Crashed, begun, error, actions);
                }
                Pick::Alone if self.running > 0 => return,
                Pick::Alone => {
                    let lane = self.partitions.get_mut(&id).and_then(Partition::begin_alone);
                    self.is_alone = true;
                    self.run(&id, Vec::from_iter(lane), actions);
                }
            }
        }
    }

    fn may_begin(&mut self, now: Instant) -> bool {
        let allowance = self.guard.allowance(now);
        if self.is_stopping || self.is_alone || self.unavailable_until.is_some() {
            return false;
        }
        match allowance {
            Allowance::Any => self.running < self.options.workers.get(),
            Allowance::One => self.running == 0,
            Allowance::Nothing => false,
        }
    }

    /// From the partition behind the one that had its turn.
    fn pick(&mut self) -> Option<(PartitionId, Pick)> {
        let after = self.turn_of.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut pick = |(id, partition): (&PartitionId, &mut Partition)| {
            partition.pick(&self.options).map(|pick| (id.clone(), pick))
        };
        let later = self.partitions.range_mut((after, Bound::Unbounded)).find_map(&mut pick);
        let picked = later.or_else(|| self.partitions.iter_mut().find_map(&mut pick))?;
        self.turn_of = Some(picked.0.clone());
        Some(picked)
    }

    fn run(&mut self, id: &PartitionId, lanes: Vec<(LaneName, usize)>, actions: &mut Vec<Action>) {
        let job = JobId(self.count());
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let mut events = Vec::new();
        let mut attempt = 1;
        for (name, count) in &lanes {
            let (of_lane, number) = partition.set_running(name, *count);
            events.extend(of_lane);
            attempt = number.max(attempt);
        }
        let begun = events.first().map_or(0, |event: &Arc<Event>| partition.begun_before(event));
        let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
        self.jobs.insert(job, Begun { assignment, partition: id.clone(), lanes });
        self.running += 1;
        actions.push(Action::Run(Job { id: job, tenure, events, attempt, begun }));
    }

    fn pause_and_resume(&mut self, actions: &mut Vec<Action>) {
        for (id, partition) in &mut self.partitions {
            match partition.change_pause(&self.options) {
                Some(true) => actions.push(Action::Pause(id.clone())),
                Some(false) => actions.push(Action::Resume(id.clone())),
                None => {}
            }
        }
    }

    fn count(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }
}

/// The handler is not to blame: the same again.
fn again(partition: &mut Partition, lanes: &[(LaneName, usize)]) {
    lanes.iter().rev().for_each(|(name, _)| partition.make_ready(name, true));
}

/// One of a batch has failed, and nobody knows which.
fn one_by_one(partition: &mut Partition, lanes: &[(LaneName, usize)]) {
    for (name, count) in lanes.iter().rev() {
        if let Some(lane) = partition.lane_mut(name) {
            lane.alone = lane.alone.max(*count);
        }
        partition.make_ready(name, true);
    }
}
