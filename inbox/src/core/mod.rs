//! Decisions of a consumer: which event is begun or retried next, which one is given up, and up to which offset may be committed.
//! No sockets and no clock: times and randomness are arguments.

mod backoff;
mod begin;
mod commits;
mod crowd;
mod failures;
mod guard;
mod job;
mod lane;
mod offsets;
mod options;
mod parking;
mod partition;
mod positions;
mod retry;
pub(crate) mod sequence;
mod standing;
mod suspects;
#[cfg(test)]
mod tests;

pub use job::{FailureKind, PartitionId, Reason};
pub use options::{AfterDeadLetter, Options, Order};
pub use retry::Retry;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;

use crate::event::Event;
pub(crate) use backoff::Uncharged;
use crowd::Crowd;
use guard::Guard;
pub(crate) use job::{
    Commit, Failed, Job, JobId, Load, Loaded, Outcome, Park, ParkedEvent, Surrender, Tenure,
};
pub(crate) use lane::LaneName;
use partition::{Partition, Standing};
pub(crate) use positions::Positions;
pub(crate) use standing::TopicStanding;
pub(crate) use suspects::Suspects;

/// Input of [`Core::turn`].
#[derive(Debug)]
pub(crate) enum Input {
    /// Kafka has assigned the partition to this consumer.
    Assigned(PartitionId),
    /// PostgreSQL has recorded this consumer as the owner of the partition. The suspects are the events during which the process
    /// may have crashed; the parked events are in order. `is_rewound`: reading restarts at an earlier offset, so earlier events are
    /// read again.
    Taken { tenure: Tenure, suspects: Suspects, parked: Vec<ParkedEvent>, is_rewound: bool },
    /// PostgreSQL could not record the owner.
    NotTaken { tenure: Tenure },
    /// Another session has taken the partition in PostgreSQL: another consumer, or an operator who has changed what is parked.
    Lost(Tenure),
    /// The database differs from the one in which the partition was taken, or has been restarted since.
    Moved(Tenure),
    /// Kafka has revoked the partition.
    Revoked(PartitionId),
    /// A record was read.
    Received(Arc<Event>),
    /// A record was read that must not be handled before this time.
    Delayed(Arc<Event>, Instant),
    /// A handler has returned, and its transaction is being committed.
    Committing { id: JobId },
    /// A transaction has ended.
    Ended { id: JobId, outcome: Outcome },
    /// An event was given up: it is in its retry topic or the dead letter topic. `has_number`: events in the table may have waited
    /// for its sequence number.
    Surrendered { id: JobId, has_number: bool },
    /// An event was given up, but its rows in PostgreSQL could not be updated: another session owns the partition.
    NotSurrendered { id: JobId },
    /// Events were written to the table, or could not be written.
    Parked { id: JobId, is_parked: bool },
    /// Result of reading the first event of a lane from the table.
    Loaded { id: JobId, loaded: Loaded },
    /// No further job may begin.
    Stop,
    /// Time has passed.
    Wake,
}

/// Action for the caller of [`Core::turn`].
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// Take the partition in PostgreSQL, also from its current owner.
    Take(Tenure),
    /// Call the handler.
    Run(Job),
    /// Write an event to its retry topic or as a dead letter.
    Surrender(Surrender),
    /// Write events to the table.
    Park(Park),
    /// Read an event from the table.
    Load(Load),
    /// Pause fetching the partition.
    Pause(PartitionId),
    /// Resume fetching the partition.
    Resume(PartitionId),
}

/// State of a consumer. See the module.
#[derive(Debug)]
pub(crate) struct Core {
    options: Options,
    partitions: BTreeMap<PartitionId, Partition>,
    jobs: HashMap<JobId, Begun>,
    /// Number of running handlers.
    running: usize,
    /// Number of transactions that are being committed.
    committing: usize,
    /// The running job may crash the process, so no other job may run.
    is_alone: bool,
    guard: Guard,
    crowd: Crowd,
    /// End of the pause after PostgreSQL did not answer. No job begins before.
    unavailable_until: Option<Instant>,
    is_stopping: bool,
    counter: u64,
    /// Partition of the job that was begun last. The next job is from the partition after it.
    turn_of: Option<PartitionId>,
    rng: Rng,
}

/// Job in progress.
#[derive(Debug)]
struct Begun {
    assignment: u64,
    partition: PartitionId,
    lanes: Vec<(LaneName, usize)>,
    is_committing: bool,
}

impl Begun {
    fn new(assignment: u64, partition: PartitionId, lanes: Vec<(LaneName, usize)>) -> Self {
        Self { assignment, partition, lanes, is_committing: false }
    }
}

impl Core {
    /// Creates the state of a consumer without partitions. `seed` is for the jitter of retries.
    pub(crate) fn new(options: Options, seed: u64) -> Self {
        let guard = Guard::new(options.failures_in_a_row_max, options.guard_pause);
        let crowd = Crowd::new(options.workers.get());
        Self {
            options,
            partitions: BTreeMap::new(),
            jobs: HashMap::new(),
            running: 0,
            committing: 0,
            is_alone: false,
            guard,
            crowd,
            unavailable_until: None,
            is_stopping: false,
            counter: 0,
            turn_of: None,
            rng: Rng::with_seed(seed),
        }
    }

    /// Applies an input and returns the resulting actions.
    pub(crate) fn turn(&mut self, now: Instant, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Assigned(partition) => self.assign(partition, &mut actions),
            Input::Taken { tenure, suspects, parked, is_rewound } => {
                let order = self.options.order;
                if let Some(partition) = self.held(&tenure) {
                    if is_rewound {
                        // Jobs in progress began before the rewind and are not awaited.
                        *partition = Partition::new(tenure.number, tenure);
                    }
                    partition.own(now, order, suspects, parked);
                }
            }
            Input::NotTaken { tenure } => {
                let until = now + self.options.unavailable_pause;
                if let Some(partition) = self.held(&tenure) {
                    partition.standing = Standing::Without(until);
                }
            }
            Input::Lost(tenure) => self.lose(&tenure, now + self.options.fenced_pause),
            Input::Moved(tenure) => self.lose(&tenure, now + self.options.unavailable_pause),
            Input::Revoked(partition) => drop(self.partitions.remove(&partition)),
            Input::Received(event) => self.receive(event, None),
            Input::Delayed(event, until) => self.receive(event, Some(until)),
            Input::Committing { id } => self.set_committing(id),
            Input::Ended { id, outcome } => self.ended(now, id, outcome, &mut actions),
            Input::Surrendered { id, has_number } => self.surrendered(now, id, has_number),
            Input::NotSurrendered { id } => self.not_surrendered(now, id),
            Input::Parked { id, is_parked } => self.parked(now, id, is_parked),
            Input::Loaded { id, loaded } => self.loaded(now, id, loaded),
            Input::Stop => self.is_stopping = true,
            Input::Wake => {}
        }
        self.wake(now, &mut actions);
        self.park_and_load(&mut actions);
        self.begin(now, &mut actions);
        self.pause_and_resume(now, &mut actions);
        actions
    }

    /// Returns the time at which [`Input::Wake`] is due, if no other input comes before.
    pub(crate) fn next_wake(&self) -> Option<Instant> {
        let partitions = self.partitions.values().filter_map(Partition::next_wake);
        partitions.chain(self.guard.next_wake()).chain(self.unavailable_until).min()
    }

    /// Reports whether there is room for more events.
    pub(crate) fn has_room(&self) -> bool {
        !self.partitions.values().any(Partition::is_full)
    }

    /// Reports whether no job is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the partition if this is its current tenure.
    fn held(&mut self, tenure: &Tenure) -> Option<&mut Partition> {
        self.partitions.get_mut(&tenure.partition).filter(|partition| partition.tenure == *tenure)
    }

    /// Marks an owned partition as lost. It is taken again at `until`.
    fn lose(&mut self, tenure: &Tenure, until: Instant) {
        if let Some(partition) = self.held(tenure).filter(|held| held.standing == Standing::Owned) {
            partition.standing = Standing::Without(until);
        }
    }

    fn assign(&mut self, id: PartitionId, actions: &mut Vec<Action>) {
        let assignment = self.count();
        let tenure = Tenure { partition: id.clone(), number: assignment };
        actions.push(Action::Take(tenure.clone()));
        self.partitions.insert(id, Partition::new(assignment, tenure));
    }

    /// Queues an event, unless its partition is not assigned.
    fn receive(&mut self, event: Arc<Event>, until: Option<Instant>) {
        let id = PartitionId { topic: Arc::clone(&event.topic), partition: event.partition };
        if let Some(partition) = self.partitions.get_mut(&id) {
            partition.receive(event, until, &self.options);
        }
    }

    /// Marks a job as committing. Another handler may begin meanwhile, but not with events of the same keys.
    fn set_committing(&mut self, id: JobId) {
        if let Some(begun) = self.jobs.get_mut(&id)
            && !begun.is_committing
        {
            begun.is_committing = true;
            self.running = self.running.saturating_sub(1);
            self.committing += 1;
        }
    }

    fn ended(&mut self, now: Instant, id: JobId, outcome: Outcome, actions: &mut Vec<Action>) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        let at = if begun.is_committing { &mut self.committing } else { &mut self.running };
        *at = at.saturating_sub(1);
        self.is_alone = false;
        if let Outcome::Uncharged { reason: Uncharged::Conflict, .. } = outcome {
            self.crowd.conflicted();
        }
        if let Outcome::Unavailable = outcome {
            self.unavailable_until = Some(now + self.options.unavailable_pause);
        }
        let partition = self.partitions.get_mut(&begun.partition);
        let partition = partition.filter(|partition| partition.assignment == begun.assignment);
        let is_single = matches!(begun.lanes.as_slice(), [(_, 1)]);
        match &outcome {
            Outcome::Done | Outcome::Closed => {
                self.guard.succeeded();
                self.crowd.succeeded();
            }
            Outcome::Failed { kind: FailureKind::Retry, .. } if is_single && partition.is_some() => {}
            _ => self.guard.ended_otherwise(),
        }
        let Some(partition) = partition else { return };
        match outcome {
            Outcome::Done | Outcome::Repeated => {
                begun.lanes.iter().for_each(|(name, count)| partition.end(name, *count));
            }
            Outcome::Closed => begun.lanes.iter().for_each(|(name, count)| {
                partition.look_into_table(name);
                partition.end(name, *count);
            }),
            Outcome::Unavailable => again(partition, &begun.lanes),
            Outcome::Fenced => {
                partition.standing = Standing::Without(now + self.options.fenced_pause);
                again(partition, &begun.lanes);
            }
            Outcome::Moved => {
                partition.standing = Standing::Without(now + self.options.unavailable_pause);
                again(partition, &begun.lanes);
            }
            Outcome::Failed { kind, error } => match begun.lanes.as_slice() {
                [(name, 1)] => self.failed(now, &begun.partition, name, kind, error, actions),
                lanes => one_by_one(partition, lanes),
            },
            Outcome::Uncharged { reason, error } => match begun.lanes.as_slice() {
                [(name, 1)] => self.repeat(now, &begun.partition, name, reason, error, actions),
                lanes => one_by_one(partition, lanes),
            },
        }
    }

    /// Ends the waits that are over.
    fn wake(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.unavailable_until.is_some_and(|until| until <= now) {
            self.unavailable_until = None;
        }
        // While several events fail and none succeeds, an event that has failed is queued after those that have not been tried.
        let first = self.guard.may_give_up(now);
        let mut counter = self.counter;
        for (id, partition) in &mut self.partitions {
            partition.wake(now, first);
            if matches!(partition.standing, Standing::Without(until) if until <= now) {
                counter += 1;
                partition.tenure = Tenure { partition: id.clone(), number: counter };
                partition.standing = Standing::Taking;
                actions.push(Action::Take(partition.tenure.clone()));
            }
        }
        self.counter = counter;
    }

    fn pause_and_resume(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for (id, partition) in &mut self.partitions {
            match partition.change_pause(now, &self.options) {
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

/// Makes the lanes of a job ready again: the failure was not the handler's.
fn again(partition: &mut Partition, lanes: &[(LaneName, usize)]) {
    lanes.iter().rev().for_each(|(name, _)| partition.make_ready(name, true));
}

/// Makes the events of a failed batch run one by one: the one that failed is unknown.
fn one_by_one(partition: &mut Partition, lanes: &[(LaneName, usize)]) {
    for (name, count) in lanes.iter().rev() {
        if let Some(lane) = partition.lane_mut(name) {
            lane.alone = lane.alone.max(*count);
        }
        partition.make_ready(name, true);
    }
}
