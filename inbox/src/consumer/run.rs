use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::error::Error;
use super::handler::Handler;
use super::work::{Context, Taken};
use crate::core::{Action, Core, Input, Job, JobId, Options, Outcome, Surrender, Tenure};
use crate::kafka::{Consumer, Rebalanced};
use crate::postgres::{Connection, Tenancy};

/// How often offsets are committed.
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// How often old events are forgotten, if it is not being done.
const PURGE_EVERY: Duration = Duration::from_secs(60);
/// How long handlers at work are waited for at the end. Then they are given up, and their transactions are rolled back.
const STOP_WITHIN: Duration = Duration::from_secs(20);
/// Partitions that are taken at a time: each needs a connection, besides those of the workers.
const TAKING_MAX: usize = 4;
/// Nothing is due: something else will happen before.
const FAR_AWAY: Duration = Duration::from_secs(3600);

/// The one loop of a consumer: it waits, asks [`Core`] what to do, and has it done.
pub(super) struct Loop<H> {
    kafka: Consumer,
    core: Core,
    context: Arc<Context<H>>,
    tasks: JoinSet<Ended>,
    /// The partitions that are held, and by which tenure.
    tenancies: HashMap<Tenure, Tenancy>,
    /// Connections that nobody uses, at most as many as there are workers.
    idle: Vec<Connection>,
    idle_max: usize,
    is_purging: bool,
    /// Partitions to take, and how many are being taken.
    to_take: VecDeque<Tenure>,
    taking: usize,
}

/// What a task has come to.
enum Ended {
    Job(JobId, Outcome, Option<Connection>),
    Take(Tenure, Option<Taken>, Option<Connection>),
    Surrender(JobId, Option<Connection>),
    Purge(Option<Connection>),
    CheckWindow,
}

impl<H: Handler> Loop<H> {
    pub(super) fn new(kafka: Consumer, options: Options, context: Arc<Context<H>>) -> Self {
        let idle_max = options.workers.get();
        Self {
            kafka,
            core: Core::new(options, fastrand::u64(..)),
            context,
            tasks: JoinSet::new(),
            tenancies: HashMap::new(),
            idle: Vec::new(),
            idle_max,
            is_purging: false,
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
        self.check_window();
        loop {
            let wake = self.next_wake();
            let input = tokio::select! {
                // A stop before anything that would begin more.
                biased;
                () = &mut stop => break,
                // These are due seldom, and then before what may be ready all the time.
                _ = commits.tick() => { self.commit(false); None }
                _ = purges.tick() => { self.purge(); None }
                () = tokio::time::sleep_until(wake.into()) => Some(Input::Wake),
                // What ends makes room.
                Some(ended) = self.tasks.join_next() => self.ended(ended.map_err(Error::Task)?),
                record = self.kafka.next() => record?.map(Input::Received),
            };
            self.take_rebalanced();
            if let Some(input) = input {
                self.turn(input);
            }
        }
        self.finish().await
    }

    /// Waits for the handlers at work, and commits what has ended.
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
        self.commit(true);
        Ok(())
    }

    fn turn(&mut self, input: Input) {
        for action in self.core.turn(Instant::now(), input) {
            match action {
                Action::Run(job) => self.begin(job),
                Action::Take(tenure) => self.take(tenure),
                Action::Surrender(surrender) => self.surrender(surrender),
                Action::Pause(id) => self.kafka.pause(&id),
                Action::Resume(id) => self.kafka.resume(&id),
            }
        }
    }

    fn begin(&mut self, job: Job) {
        let Some(tenancy) = self.tenancies.get(&job.tenure).cloned() else {
            // The core begins nothing before it was told that the partition is taken.
            tracing::error!(?job.tenure, "a job of a partition that is not held");
            return;
        };
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let (outcome, connection) = context.handle(connection, &tenancy, &job).await;
            Ended::Job(job.id, outcome, connection)
        });
    }

    fn take(&mut self, tenure: Tenure) {
        self.tenancies.retain(|held, _| held.partition != tenure.partition);
        self.to_take.push_back(tenure);
        self.take_next();
    }

    fn take_next(&mut self) {
        if self.taking >= TAKING_MAX {
            return;
        }
        let Some(tenure) = self.to_take.pop_front() else { return };
        self.taking += 1;
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        self.tasks.spawn(async move {
            let (taken, connection) = context.take(connection, &tenure.partition).await;
            Ended::Take(tenure, taken, connection)
        });
    }

    fn surrender(&mut self, surrender: Surrender) {
        let event = &surrender.event;
        tracing::error!(
            topic = &*event.topic,
            partition = event.partition,
            offset = event.offset,
            attempts = surrender.attempts,
            error = surrender.error,
            "an event is given up: it becomes a dead letter"
        );
        let tenancy = self.tenancies.get(&surrender.tenure).cloned();
        let context = Arc::clone(&self.context);
        self.tasks.spawn(async move {
            let connection = context.surrender(None, tenancy.as_ref(), &surrender).await;
            Ended::Surrender(surrender.id, connection)
        });
    }

    fn check_window(&mut self) {
        let (context, query) = (Arc::clone(&self.context), self.kafka.retention());
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
                Input::Ended { id, outcome }
            }
            Ended::Surrender(id, connection) => {
                self.keep(connection);
                Input::Surrendered { id }
            }
            Ended::Take(tenure, taken, connection) => {
                self.keep(connection);
                self.taking = self.taking.saturating_sub(1);
                self.take_next();
                let Some((tenancy, begun)) = taken else { return Some(Input::NotTaken { tenure }) };
                self.tenancies.insert(tenure.clone(), tenancy);
                Input::Taken { tenure, begun }
            }
            Ended::Purge(connection) => {
                self.is_purging = false;
                self.keep(connection);
                return None;
            }
            Ended::CheckWindow => return None,
        })
    }

    fn keep(&mut self, connection: Option<Connection>) {
        if self.idle.len() < self.idle_max {
            self.idle.extend(connection);
        }
    }

    fn take_rebalanced(&mut self) {
        for change in self.kafka.take_rebalanced() {
            match change {
                Rebalanced::Assigned(id) => {
                    tracing::info!(topic = &*id.topic, partition = id.partition, "a partition is assigned");
                    // It may be paused from the last time that it was assigned.
                    self.kafka.resume(&id);
                    self.turn(Input::Assigned(id));
                }
                Rebalanced::Revoked(id) => {
                    tracing::info!(topic = &*id.topic, partition = id.partition, "a partition is revoked");
                    self.tenancies.retain(|held, _| held.partition != id);
                    self.to_take.retain(|tenure| tenure.partition != id);
                    self.turn(Input::Revoked(id));
                }
            }
        }
    }

    fn commit(&mut self, is_last: bool) {
        let ends = match is_last || self.kafka.take_commit_failed() {
            true => self.core.ends().map(|(id, end)| (id.clone(), end)).collect(),
            false => self.core.take_commits(),
        };
        ends.iter().for_each(|(id, end)| self.kafka.set_end(id, *end));
        self.kafka.commit(&ends, is_last);
    }

    fn next_wake(&self) -> Instant {
        self.core.next_wake().unwrap_or_else(|| Instant::now() + FAR_AWAY)
    }
}
