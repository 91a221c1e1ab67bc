//! Choice of the next job.

use std::ops::Bound;
use std::sync::Arc;
use std::time::Instant;

use super::guard::Allowance;
use super::job::{Failed, Job, JobId, PartitionId, Reason};
use super::lane::{LaneName, Parked};
use super::partition::{Partition, Pick};
use super::{Action, Begun, Core};
use crate::event::Event;

impl Core {
    /// Begins all jobs that may begin.
    pub(super) fn begin(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while self.may_begin(now) {
            let Some((id, pick)) = self.pick(now) else { return };
            match pick {
                Pick::Run(lanes) => self.run(&id, lanes, actions),
                Pick::Crashed(name, begun) => self.crashed(now, &id, &name, begun, actions),
                Pick::Alone if self.open() > 0 => return,
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
            Allowance::Any | Allowance::Trial => {
                self.running < self.options.workers.get()
                    && self.open() < self.options.open_max()
                    && self.crowd.may_begin(self.open())
            }
            Allowance::Nothing => false,
        }
    }

    /// Returns the number of transactions that have not ended.
    fn open(&self) -> usize {
        self.running + self.committing
    }

    /// Picks the next job, starting at the partition after the last one that had its turn.
    fn pick(&mut self, now: Instant) -> Option<(PartitionId, Pick)> {
        let after = self.turn_of.take().map_or(Bound::Unbounded, Bound::Excluded);
        let mut pick = |(id, partition): (&PartitionId, &mut Partition)| {
            partition.pick(now, &self.options).map(|pick| (id.clone(), pick))
        };
        let later = self.partitions.range_mut((after, Bound::Unbounded)).find_map(&mut pick);
        let picked = later.or_else(|| self.partitions.iter_mut().find_map(&mut pick))?;
        self.turn_of = Some(picked.0.clone());
        Some(picked)
    }

    /// Parks an event during which the process has crashed too often. The crash may have had another cause, so the event waits in
    /// the table before each further attempt, and is given up only after the last wait.
    fn crashed(
        &mut self,
        now: Instant,
        id: &PartitionId,
        name: &LaneName,
        begun: u32,
        actions: &mut Vec<Action>,
    ) {
        let error = "the process ended each time while a handler was at this event".to_owned();
        let Some(wait) = self.options.retry.suspect_wait(begun.saturating_sub(self.options.crashes_max))
        else {
            return self.surrender(id, name, Reason::Crashed, begun, error, actions);
        };
        let Some(lane) = self.partitions.get_mut(id).and_then(|partition| partition.lane_mut(name)) else {
            return;
        };
        let failed = Failed { attempts: lane.failed, wait, error, begun };
        if let Some(event) = lane.events.front() {
            tracing::error!(
                topic = &*event.topic,
                partition = event.partition,
                offset = event.offset,
                begun,
                ?wait,
                "the process has ended again and again while a handler was at this event: it is parked"
            );
        }
        self.park_failed(now, id, name, failed, actions);
    }

    fn run(&mut self, id: &PartitionId, lanes: Vec<(LaneName, usize)>, actions: &mut Vec<Action>) {
        let job = JobId(self.count());
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let mut events = Vec::new();
        let mut attempt = 1;
        let mut is_parked = false;
        for (name, count) in &lanes {
            let (of_lane, number) = partition.set_running(name, *count);
            is_parked |= partition.lane_mut(name).is_some_and(|lane| lane.parked == Parked::First);
            events.extend(of_lane);
            attempt = number.max(attempt);
        }
        let begun = events.first().map_or(0, |event: &Arc<Event>| partition.begun_before(event));
        let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
        let open_from = partition.offsets.contiguous_end().unwrap_or_default();
        self.jobs.insert(job, Begun::new(assignment, id.clone(), lanes));
        self.running += 1;
        self.guard.begun();
        actions.push(Action::Run(Job { id: job, tenure, events, attempt, begun, is_parked, open_from }));
    }
}
