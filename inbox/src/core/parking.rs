//! Events that are written to the table.

use std::time::Instant;

use super::job::{Failed, JobId, Load, Loaded, Park};
use super::lane::{LaneName, LaneState, Parked};
use super::partition::Standing;
use super::{Action, Begun, Core, PartitionId};

/// Maximum number of events that are written to the table at a time.
const PARK_MAX: usize = 500;

impl Core {
    /// Parks the first event of a lane, which has failed, together with the later events of the lane. If the table is full, the
    /// lane waits in memory instead.
    pub(super) fn park_failed(
        &mut self,
        now: Instant,
        id: &PartitionId,
        name: &LaneName,
        failed: Failed,
        actions: &mut Vec<Action>,
    ) {
        let (job, room) = (JobId(self.count()), self.room(id));
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
        let Some(lane) = partition.lane_mut(name) else { return };
        if lane.parked != Parked::First && room == 0 {
            tracing::error!("the table of parked events is full: a key that fails holds back its partition");
            lane.waited = failed.begun;
            return partition.wait(name, now + failed.wait);
        }
        lane.state = LaneState::Parking;
        lane.until = Some(now + failed.wait);
        let count = lane.events.len().min(PARK_MAX).min(room.max(1));
        let events = lane.events.iter().take(count).cloned().collect();
        self.jobs.insert(job, Begun::new(assignment, id.clone(), vec![(name.clone(), count)]));
        actions.push(Action::Park(Park { id: job, tenure, events, failed: Some(failed) }));
    }

    /// Begins the due reads and writes of the table.
    pub(super) fn park_and_load(&mut self, actions: &mut Vec<Action>) {
        if self.is_stopping || self.unavailable_until.is_some() {
            return;
        }
        let owned = self.partitions.iter().filter(|(_, partition)| partition.standing == Standing::Owned);
        let busy = owned
            .filter(|(_, partition)| !partition.to_park.is_empty() || !partition.to_load.is_empty())
            .map(|(id, _)| id.clone());
        for id in busy.collect::<Vec<_>>() {
            self.load_lanes(&id, actions);
            self.park_lanes(&id, actions);
        }
    }

    fn load_lanes(&mut self, id: &PartitionId, actions: &mut Vec<Action>) {
        while let Some(partition) = self.partitions.get_mut(id)
            && let Some(lane) = partition.to_load.pop_front()
        {
            let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
            if partition.lane_mut(&lane).is_none_or(|lane| lane.parked != Parked::Before) {
                // No event of the lane is in the table any more.
                partition.make_ready(&lane, true);
                continue;
            }
            let job = JobId(self.count());
            self.jobs.insert(job, Begun::new(assignment, id.clone(), vec![(lane.clone(), 0)]));
            actions.push(Action::Load(Load { id: job, tenure, lane }));
        }
    }

    fn park_lanes(&mut self, id: &PartitionId, actions: &mut Vec<Action>) {
        let mut room = self.room(id);
        while room > 0
            && let Some(partition) = self.partitions.get_mut(id)
            && let Some(lane) = partition.to_park.pop_front()
        {
            let (assignment, tenure) = (partition.assignment, partition.tenure.clone());
            let Some(events) = partition.begin_park(&lane, PARK_MAX.min(room)) else { continue };
            room -= events.len();
            let job = JobId(self.count());
            let begun = Begun::new(assignment, id.clone(), vec![(lane, events.len())]);
            self.jobs.insert(job, begun);
            actions.push(Action::Park(Park { id: job, tenure, events, failed: None }));
        }
    }

    /// Returns the number of events of the partition that may still be written to the table.
    fn room(&self, id: &PartitionId) -> usize {
        let parked = self.partitions.get(id).map_or(0, |partition| partition.parked_count);
        self.options.parked_max.saturating_sub(parked)
    }

    pub(super) fn parked(&mut self, now: Instant, id: JobId, is_parked: bool) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        if !is_parked {
            self.unavailable_until = Some(now + self.options.unavailable_pause);
        }
        let partition = self.partitions.get_mut(&begun.partition);
        let partition = partition.filter(|partition| partition.assignment == begun.assignment);
        let (Some(partition), Some((name, count))) = (partition, begun.lanes.first()) else { return };
        let Some(lane) = partition.lane_mut(name) else { return };
        if !is_parked {
            // A lane that is not in the table is tried once more before it is parked.
            return partition.wait(name, now + self.options.unavailable_pause);
        }
        let until = lane.until.unwrap_or(now);
        let was_there = usize::from(lane.parked == Parked::First);
        lane.parked = Parked::Before;
        partition.parked_count += count.saturating_sub(was_there);
        partition.leave(name, *count);
        partition.wait_parked(name, until);
    }

    pub(super) fn loaded(&mut self, now: Instant, id: JobId, loaded: Loaded) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        if matches!(loaded, Loaded::Unavailable) {
            self.unavailable_until = Some(now + self.options.unavailable_pause);
        }
        let partition = self.partitions.get_mut(&begun.partition);
        let partition = partition.filter(|partition| partition.assignment == begun.assignment);
        let (Some(partition), Some((name, _))) = (partition, begun.lanes.first()) else { return };
        match loaded {
            Loaded::Nothing => {
                if let Some(lane) = partition.lane_mut(name) {
                    lane.parked = Parked::No;
                }
                partition.make_ready(name, true);
            }
            Loaded::Due { event, attempts, begun } => partition.enter(name, event, attempts, begun),
            Loaded::Waits(wait) => partition.wait_parked(name, now + wait),
            Loaded::Dead => partition.wait_parked(name, now + self.options.release_poll),
            Loaded::Unavailable => partition.wait(name, now + self.options.unavailable_pause),
        }
    }
}
