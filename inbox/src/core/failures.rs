//! Handling of failures: an attempt is repeated, an event waits, or it is given up.

use std::time::Instant;

use super::backoff::Uncharged;
use super::job::{FailureKind, JobId, PartitionId, Reason};
use super::lane::{LaneState, Parked};
use super::options::{AfterDeadLetter, Options};
use super::partition::Standing;
use super::retry::Wait;
use super::{Action, Begun, Core, Failed, LaneName, Surrender};

/// Maximum length of a stored error, in bytes. An error may quote the whole value.
const ERROR_BYTES_MAX: usize = 2000;

/// Number of failed trials of an event, while everything fails, before it waits in the table.
const TRIALS_IN_MEMORY: u32 = 3;

impl Core {
    /// Repeats an attempt that PostgreSQL has ended. It is charged to the event only after too many consecutive repeats.
    pub(super) fn repeat(
        &mut self,
        now: Instant,
        id: &PartitionId,
        name: &LaneName,
        reason: Uncharged,
        error: String,
        actions: &mut Vec<Action>,
    ) {
        let chance = self.rng.f64();
        let Some(partition) = self.partitions.get_mut(id) else { return };
        partition.forget_begun(name);
        let Some(lane) = partition.lane_mut(name) else { return };
        lane.repeats = lane.repeats.saturating_add(1);
        if lane.repeats <= reason.repeats_max() {
            let wait = Uncharged::wait(lane.repeats, chance);
            tracing::debug!(error, ?reason, ?wait, "an attempt is repeated");
            return partition.wait(name, now + wait);
        }
        lane.repeats = 0;
        self.failed(now, id, name, FailureKind::Retry, error, actions);
    }

    /// Handles a failed attempt of a single event: retries, parks, or gives up the event.
    pub(super) fn failed(
        &mut self,
        now: Instant,
        id: &PartitionId,
        name: &LaneName,
        kind: FailureKind,
        error: String,
        actions: &mut Vec<Action>,
    ) {
        let error = tidy(&error);
        let Some(partition) = self.partitions.get_mut(id) else { return };
        partition.forget_begun(name);
        let Some(lane) = partition.lane_mut(name) else { return };
        let was_closed = self.guard.is_closed();
        let is_first = lane.failed == 0 && lane.trials == 0;
        if was_closed || lane.failed == 0 {
            lane.failed = lane.failed.saturating_add(1);
        } else {
            lane.trials = lane.trials.saturating_add(1);
        }
        let is_last = !matches!(self.options.retry.wait(lane.failed, 0.0), Some(Wait::Memory(_)));
        let is_held = kind == FailureKind::Retry && was_closed && is_last && !self.guard.may_give_up(now);
        if is_held {
            // The last attempt is repeated, because an outage may have begun.
            lane.failed = lane.failed.saturating_sub(1).max(1);
            lane.trials = lane.trials.saturating_add(1);
        }
        let (failed, trials) = (lane.failed, lane.trials);
        let event = lane.events.front().cloned();
        // A poison event is invalid itself: it is not counted as a failure and does not wait for other events.
        let wait = match kind {
            FailureKind::Poison => None,
            FailureKind::Retry => {
                if self.guard.failed(now, is_first) {
                    tracing::error!(
                        error,
                        "too many events failed in a row: the cause is not in them. A few are tried at a time until one \
                         succeeds, and none is given up"
                    );
                }
                let wait = self.options.retry.wait(failed, self.rng.f64());
                match wait {
                    Some(Wait::Memory(_)) if self.guard.is_closed() && !is_held => wait,
                    _ if self.guard.may_give_up(now) && !is_held => wait,
                    _ => Some(self.wait_for_others(trials)),
                }
            }
        };
        if let (Some(event), Some(Wait::Memory(next) | Wait::Parked(next))) = (event, wait) {
            tracing::warn!(
                topic = &*event.topic,
                partition = event.partition,
                offset = event.offset,
                attempt = failed,
                next_wait = ?next,
                is_parked = matches!(wait, Some(Wait::Parked(_))),
                error,
                "an attempt has failed; retrying"
            );
        }
        match (wait, kind) {
            (Some(Wait::Memory(wait)), _) => {
                let Some(partition) = self.partitions.get_mut(id) else { return };
                partition.wait(name, now + wait);
            }
            (Some(Wait::Parked(wait)), _) => {
                let failed = Failed { attempts: failed, wait, error, begun: 0 };
                self.park_failed(now, id, name, failed, actions);
            }
            (None, FailureKind::Retry) => self.surrender(id, name, Reason::Exhausted, failed, error, actions),
            (None, FailureKind::Poison) => self.surrender(id, name, Reason::Poison, failed, error, actions),
        }
    }

    /// Returns the wait of an event that has failed while everything failed. The event is not given up. After some trials it is
    /// parked, which makes room in memory for events that may succeed.
    fn wait_for_others(&self, trials: u32) -> Wait {
        match self.options.retry.first_parked() {
            Some(wait) if trials >= TRIALS_IN_MEMORY => Wait::Parked(wait),
            _ => Wait::Memory(self.options.guard_pause),
        }
    }

    pub(super) fn surrender(
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
        let is_parked = lane.parked == Parked::First;
        let key_waits = key_waits(&self.options, name);
        let begun = Begun::new(assignment, id.clone(), vec![(name.clone(), 1)]);
        self.jobs.insert(job, begun);
        actions.push(Action::Surrender(Surrender {
            id: job,
            tenure,
            event,
            reason,
            attempts,
            error,
            is_parked,
            key_waits,
        }));
    }

    pub(super) fn surrendered(&mut self, now: Instant, id: JobId, has_number: bool) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        let partition = self.partitions.get_mut(&begun.partition);
        let partition = partition.filter(|partition| partition.assignment == begun.assignment);
        let (Some(partition), Some((name, count))) = (partition, begun.lanes.first()) else { return };
        match key_waits(&self.options, name) {
            true => partition.block(name, now + self.options.release_poll),
            false => {
                if has_number {
                    partition.look_into_table(name);
                }
                partition.end(name, *count);
            }
        }
    }

    /// Schedules another attempt at the event after the partition is taken again. The event may become a dead letter twice, but no
    /// event of its key overtakes it.
    pub(super) fn not_surrendered(&mut self, now: Instant, id: JobId) {
        let Some(begun) = self.jobs.remove(&id) else { return };
        let until = now + self.options.fenced_pause;
        let partition = self.partitions.get_mut(&begun.partition);
        let partition = partition.filter(|partition| partition.assignment == begun.assignment);
        let (Some(partition), Some((name, _))) = (partition, begun.lanes.first()) else { return };
        partition.standing = Standing::Without(until);
        partition.make_ready(name, true);
    }
}

/// Reports whether the later events of this lane wait behind its dead letter. Events without a key do not wait.
fn key_waits(options: &Options, name: &LaneName) -> bool {
    options.after_dead_letter == AfterDeadLetter::KeyWaits && !matches!(name, LaneName::Offset(_))
}

/// Returns an error in the form for logs, tables and headers: without zero bytes, which PostgreSQL refuses, and of limited length.
fn tidy(error: &str) -> String {
    let end = (0..=ERROR_BYTES_MAX).rev().find(|end| error.is_char_boundary(*end)).unwrap_or_default();
    let (kept, cut) = error.split_at_checked(end).unwrap_or((error, ""));
    let kept = kept.replace('\0', "\u{fffd}");
    if cut.is_empty() { kept } else { format!("{kept}… ({} bytes more)", cut.len()) }
}
