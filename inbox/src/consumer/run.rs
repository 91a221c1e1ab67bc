//! Main loop of a consumer.

mod assigned;
mod commits;
mod taking;
mod watch;

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use self::assigned::{Assigned, AssignedPartitions};
use super::failure::chain;
use super::handler::Handler;
use super::offsets::Beginning;
use super::work::Context;
use crate::Error;
use crate::core::{
    Action, Commit, Core, Input, Job, JobId, Load, Loaded, Options, Outcome, Park, PartitionId, Positions,
    Surrender, Tenure,
};
use crate::event::{Event, Position};
use crate::kafka::{Consumer, InboxContext, Rebalanced};
use crate::postgres::{Connection, NotStored, Taken, Tenancy, Written};

/// Interval between commits of offsets.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// Interval between purges of old events. A purge is skipped while the last one is running.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// Interval between checks for handlers that have not returned, and for partitions that another session has taken.
const WATCH_EVERY: Duration = Duration::from_secs(5);
/// Run time after which a handler is logged, and logged again after each such time.
const SLOW_AFTER: Duration = Duration::from_secs(30);
/// Maximum age of a connection. Its cached plans and settings may be out of date after that.
const CONNECTION_AGE_MAX: Duration = Duration::from_secs(30 * 60);
/// Time limit for running handlers at the end. After that they are dropped, and their transactions are rolled back.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Minimum time that Kafka has for the last commit.
const COMMIT_WITHIN: Duration = Duration::from_secs(5);
/// Time limit at the end for storing offsets and giving partitions back in PostgreSQL. Nothing is lost if it is exceeded.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(1);
/// Time until the next wake-up if nothing is due.
const FAR_AWAY: Duration = Duration::from_secs(3600);

/// Main loop of a consumer: waits for input, passes it to [`Core`], and starts the resulting actions.
pub(super) struct Loop<H, C: InboxContext> {
    kafka: Consumer<C>,
    core: Core,
    context: Arc<Context<H>>,
    tasks: JoinSet<Ended>,
    /// Partitions that are held, by tenure.
    tenancies: HashMap<Tenure, Tenancy>,
    /// Jobs whose transactions are being committed. The channel has room for all open transactions.
    committing: mpsc::Receiver<JobId>,
    /// Unused connections, at most the number that transactions need.
    idle: Vec<Connection>,
    idle_max: usize,
    assigned: AssignedPartitions,
    /// Jobs whose handlers have not returned.
    at_work: HashMap<JobId, AtWork>,
    is_purging: bool,
    is_committing: bool,
    is_checking: bool,
    /// Partitions to take; `taking` counts those in progress.
    to_take: VecDeque<Tenure>,
    taking: usize,
}

/// Job whose handler has not returned.
struct AtWork {
    since: Instant,
    /// Time of its next log line.
    report_at: Instant,
    event: Arc<Event>,
}

/// Result of a task.
enum Ended {
    Job(JobId, Outcome, Option<Connection>),
    Take(Tenure, Option<Box<Taken>>, Beginning, Option<Connection>),
    Surrender(JobId, Written, Option<Connection>),
    Park(JobId, bool, Option<Connection>),
    Load(JobId, Loaded, Option<Connection>),
    Purge(Option<Connection>),
    /// Commits that PostgreSQL has stored, and whether Kafka has accepted them.
    Commit(Vec<Commit>, bool, Option<Connection>),
    /// Partitions for which no offset was stored; then none is committed to Kafka.
    NotStored(Vec<(Tenure, NotStored)>, Option<Connection>),
    /// Partitions for which the group has no offset any more.
    Recreated(Vec<PartitionId>, Option<Connection>),
    GiveBack(Option<Connection>),
    /// Partitions that another session has taken.
    Check(Vec<Tenure>, Option<Connection>),
    CheckWindow,
}

impl<H: Handler, C: InboxContext> Loop<H, C> {
    /// Creates the loop. `context` receives the sender for the jobs whose transactions are being committed.
    pub(super) fn new(
        kafka: Consumer<C>,
        options: Options,
        context: impl FnOnce(mpsc::Sender<JobId>) -> Context<H>,
    ) -> Self {
        let idle_max = options.open_max();
        let (report_committing, committing) = mpsc::channel(idle_max);
        let context = Arc::new(context(report_committing));
        Self {
            kafka,
            core: Core::new(options, fastrand::u64(..)),
            context,
            tasks: JoinSet::new(),
            tenancies: HashMap::new(),
            committing,
            idle: Vec::new(),
            idle_max,
            assigned: AssignedPartitions::new(),
            at_work: HashMap::new(),
            is_purging: false,
            is_committing: false,
            is_checking: false,
            to_take: VecDeque::new(),
            taking: 0,
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Error> {
        let mut stop = pin!(stop);
        let mut commits = tokio::time::interval(COMMIT_EVERY);
        commits.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut purges = tokio::time::interval(PURGE_EVERY);
        purges.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut watches = tokio::time::interval(WATCH_EVERY);
        watches.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.check_window();
        self.check_tables().await?;
        loop {
            let wake = self.next_wake();
            let input = tokio::select! {
                // A stop comes before any new work.
                biased;
                () = &mut stop => break,
                // These are seldom due, and then come before inputs that may be ready all the time.
                _ = commits.tick() => { self.commit(); None }
                _ = purges.tick() => { self.purge(); None }
                _ = watches.tick() => { self.watch(); None }
                () = tokio::time::sleep_until(wake.into()) => Some(Input::Wake),
                // Jobs that end or are being committed make room.
                Some(id) = self.committing.recv() => Some(Input::Committing { id }),
                Some(ended) = self.tasks.join_next() => self.ended(ended.map_err(Error::Task)?),
                // Records are read only while there is room for them.
                record = self.kafka.next(), if self.core.has_room() => record?.map(|event| self.received(event)),
            };
            self.take_rebalanced();
            if let Some(input) = input {
                self.look_at_position(&input);
                self.turn(input);
            }
        }
        self.finish().await
    }

    /// Checks the tables before the first record is read. If the server is unavailable, the loop waits for it later.
    async fn check_tables(&self) -> Result<(), Error> {
        match self.context.opener.check_tables().await {
            Err(error) if error.is_transient() => {
                tracing::warn!(error = chain(&error), "PostgreSQL is not available; retrying");
                Ok(())
            }
            checked => Ok(checked?),
        }
    }

    /// Waits for running handlers, and commits the offsets up to which events have ended.
    async fn finish(mut self) -> Result<(), Error> {
        self.turn(Input::Stop);
        let deadline = tokio::time::Instant::now() + STOP_WITHIN;
        while !self.core.is_idle() {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => {
                    if let Some(input) = self.ended(ended.map_err(Error::Task)?) {
                        self.turn(input);
                    }
                }
                () = tokio::time::sleep_until(deadline) => {
                    tracing::warn!("handlers are still at work: their events will be given again");
                    break;
                }
            }
        }
        let last = self.store_last().await;
        self.give_back(|_| true);
        // An unavailable server is not waited for.
        while let Ok(Some(_)) = tokio::time::timeout(GIVE_BACK_WITHIN, self.tasks.join_next()).await {}
        self.commit_last(last, deadline.max(tokio::time::Instant::now() + COMMIT_WITHIN)).await;
        Ok(())
    }

    fn received(&self, event: Arc<Event>) -> Input {
        self.context.telemetry.consumed(&event.topic);
        self.context.received(event)
    }

    fn turn(&mut self, input: Input) {
        for action in self.core.turn(Instant::now(), input) {
            match action {
                Action::Run(job) => self.begin(job),
                Action::Take(tenure) => self.take(tenure),
                Action::Surrender(surrender) => self.surrender(surrender),
                Action::Park(park) => self.park(park),
                Action::Load(load) => self.load(load),
                Action::Pause(id) => self.kafka.pause(&id),
                Action::Resume(id) => self.kafka.resume(&id),
            }
        }
    }

    /// Records the position of a received event, before the core decides what happens to it.
    fn look_at_position(&mut self, input: &Input) {
        if let Input::Received(event) = input
            && self.context.has_positions()
            && let Some(position) = Position::of(event)
        {
            let id = PartitionId { topic: Arc::clone(&event.topic), partition: event.partition };
            if let Some(assigned) = self.assigned.get_mut(&id) {
                assigned.positions.get_or_insert_default().receive(event.offset, position);
            }
        }
    }

    fn begin(&mut self, job: Job) {
        let Some(tenancy) = self.tenancies.get(&job.tenure).cloned() else {
            // The core begins no job before the partition is taken.
            tracing::error!(?job.tenure, "a job of a partition that is not held");
            return;
        };
        let assigned = self.assigned.get_mut(&job.tenure.partition);
        let positions = assigned.and_then(|assigned| assigned.positions.as_mut());
        let fresh = positions.map(|positions| fresh(positions, &job)).unwrap_or_default();
        if let Some(event) = job.events.first().cloned() {
            let since = Instant::now();
            self.at_work.insert(job.id, AtWork { since, report_at: since + SLOW_AFTER, event });
        }
        // A further attempt has a new connection: the last one may have been the cause.
        let connection = self.idle.pop().filter(|_| job.attempt <= 1);
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let (outcome, connection) = context.handle(connection, &tenancy, &job, &fresh).await;
            Ended::Job(job.id, outcome, connection)
        });
    }

    fn surrender(&mut self, surrender: Surrender) {
        self.context.report(&surrender);
        let tenancy = self.tenancies.get(&surrender.tenure).cloned();
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let (written, connection) = context.surrender(tenancy.as_ref(), &surrender).await;
            Ended::Surrender(surrender.id, written, connection)
        });
    }

    fn park(&mut self, park: Park) {
        let tenancy = self.tenancies.get(&park.tenure).cloned();
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let Some(tenancy) = tenancy else { return Ended::Park(park.id, false, connection) };
            let (is_parked, connection) = context.park(connection, &tenancy, &park).await;
            Ended::Park(park.id, is_parked, connection)
        });
    }

    fn load(&mut self, load: Load) {
        let tenancy = self.tenancies.get(&load.tenure).cloned();
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let Some(tenancy) = tenancy else { return Ended::Load(load.id, Loaded::Unavailable, connection) };
            let (loaded, connection) = context.load(connection, &tenancy, &load).await;
            Ended::Load(load.id, loaded, connection)
        });
    }

    fn give_back(&mut self, which: impl Fn(&Tenure) -> bool) {
        let given: Vec<Tenancy> =
            self.tenancies.extract_if(|tenure, _| which(tenure)).map(|(_, tenancy)| tenancy).collect();
        if given.is_empty() {
            return;
        }
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move { Ended::GiveBack(context.give_back(connection, &given).await) });
    }

    fn check_window(&mut self) {
        let (context, query) =
            (Arc::clone(&self.context), self.kafka.retention(self.context.dead_letters.name()));
        self.tasks.spawn(async move {
            context.check_window(&query).await;
            Ended::CheckWindow
        });
    }

    fn purge(&mut self) {
        if self.is_purging {
            return;
        }
        self.is_purging = true;
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move { Ended::Purge(context.purge(connection).await) });
    }

    fn ended(&mut self, ended: Ended) -> Option<Input> {
        Some(match ended {
            Ended::Job(id, outcome, connection) => {
                self.keep(connection);
                self.at_work.remove(&id);
                Input::Ended { id, outcome }
            }
            Ended::Surrender(id, Written::Fenced, connection) => {
                self.keep(connection);
                Input::NotSurrendered { id }
            }
            Ended::Surrender(id, Written::Yes, connection) => {
                self.keep(connection);
                Input::Surrendered { id, has_number: self.context.has_numbers() }
            }
            Ended::Park(id, is_parked, connection) => {
                self.keep(connection);
                Input::Parked { id, is_parked }
            }
            Ended::Load(id, loaded, connection) => {
                self.keep(connection);
                Input::Loaded { id, loaded }
            }
            Ended::Take(tenure, taken, beginning, connection) => {
                self.keep(connection);
                return Some(self.taken(tenure, taken, beginning));
            }
            Ended::Purge(connection) => {
                self.is_purging = false;
                self.keep(connection);
                return None;
            }
            Ended::Commit(stored, is_accepted, connection) => {
                self.keep(connection);
                self.is_committing = false;
                assigned::committed(&mut self.assigned, &stored, is_accepted);
                self.set_ends();
                if is_accepted {
                    self.core.committed(Instant::now(), &stored);
                }
                return None;
            }
            Ended::NotStored(not_stored, connection) => {
                self.keep(connection);
                self.is_committing = false;
                self.take_not_stored(not_stored);
                return None;
            }
            Ended::Recreated(gone, connection) => {
                self.keep(connection);
                self.is_committing = false;
                self.take_recreated(gone);
                return None;
            }
            Ended::GiveBack(connection) => {
                self.keep(connection);
                return None;
            }
            Ended::Check(lost, connection) => {
                self.keep(connection);
                self.is_checking = false;
                lost.into_iter().for_each(|tenure| self.turn(Input::Lost(tenure)));
                return None;
            }
            Ended::CheckWindow => return None,
        })
    }

    fn keep(&mut self, connection: Option<Connection>) {
        if self.idle.len() < self.idle_max {
            self.idle.extend(connection.filter(|connection| connection.age() < CONNECTION_AGE_MAX));
        }
    }

    fn take_rebalanced(&mut self) {
        for change in self.kafka.take_rebalanced() {
            match change {
                Rebalanced::Assigned(id) => {
                    tracing::info!(topic = &*id.topic, partition = id.partition, "a partition is assigned");
                    // It may still be paused from its last assignment.
                    self.kafka.resume(&id);
                    self.assigned.insert(id.clone(), Assigned::default());
                    self.turn(Input::Assigned(id));
                }
                Rebalanced::Revoked(id) => {
                    tracing::info!(topic = &*id.topic, partition = id.partition, "a partition is revoked");
                    self.give_back(|tenure| tenure.partition == id);
                    self.assigned.remove(&id);
                    self.to_take.retain(|tenure| tenure.partition != id);
                    self.turn(Input::Revoked(id));
                }
            }
        }
    }

    fn next_wake(&self) -> Instant {
        self.core.next_wake().unwrap_or_else(|| Instant::now() + FAR_AWAY)
    }
}

/// Returns for each event of a job whether it is certainly new.
fn fresh(positions: &mut Positions, job: &Job) -> Vec<bool> {
    let mut begin = |event: &Arc<Event>| match Position::of(event).filter(|_| job.is_parked) {
        Some(position) => {
            positions.begin_parked(event.offset, position);
            false
        }
        None => positions.begin(event.offset),
    };
    job.events.iter().map(&mut begin).collect()
}
