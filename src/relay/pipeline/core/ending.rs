//! The wait for records in flight without new rows: after a failure until its cause is known, and at the end of a snapshot.

use std::time::{Duration, Instant};

use super::Core;
use crate::kafka::Transport;
use crate::relay::delivery::exactly_once::Urgency;
use crate::relay::error::Error;
use crate::relay::progress::position::DuePosition;
use crate::relay::time::clock::Now;
use crate::replication::StandbyStatusUpdate;

/// Longest wait for the delivery report that has the cause of a producer's failure.
pub(in crate::relay) const CAUSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Wait for records in flight when no more rows are handed over, after a failure or at the end of a snapshot.
///
/// A fatal error of the producer has a cause: the record that was refused. It is final once everything else
/// has been reported, which is waited for; and what is acknowledged meanwhile is confirmed, so that it is not
/// repeated. A producer that has failed may never report the records behind it: they are given up after a while, whenever in
/// the wait it fails.
#[derive(Debug)]
pub(in crate::relay) struct Ending {
    /// A transaction of Kafka may have failed: why, is known once it has ended.
    of_transactions: bool,
    stage: Stage,
    limits: Limits,
    urgency: Urgency,
}

/// Longest waits of an ending.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Limits {
    /// For the cause of a producer's failure, before everything in flight is given up.
    pub(in crate::relay) cause: Duration,
    /// For the rest; `None` is unlimited.
    pub(in crate::relay) rest: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// The producer works: Kafka answers in the end.
    Works { until: Option<Instant> },
    /// The producer has failed.
    Failed { until: Instant },
    /// The records in flight are given up, which is reported too.
    GivenUp { until: Option<Instant> },
}

/// Result of a turn of an ending.
#[derive(Debug)]
pub(in crate::relay) struct Drain {
    /// For the server, if it is still connected.
    pub(in crate::relay) update: Option<StandbyStatusUpdate>,
    /// Position to store, if there still is a session.
    pub(in crate::relay) store: Option<DuePosition>,
    /// Reason for which Kafka accepts no records.
    pub(in crate::relay) obstacle: Option<String>,
    pub(in crate::relay) then: Draining,
}

/// Next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Draining {
    /// Waiting for delivery reports.
    Wait,
    /// The producer gives up what is on its way.
    Purge,
    /// Everything has come back.
    Done,
    /// Not everything was reported in time.
    Late,
}

impl Ending {
    pub(in crate::relay) fn new(
        failure: Option<&Error>,
        core: &Core<'_, impl Transport>,
        urgency: Urgency,
        limits: Limits,
        now: Now,
    ) -> Self {
        let refused = matches!(failure, Some(Error::Kafka(_))) && !core.feed.out.flight.is_doubtful();
        let stage = match refused {
            true => Stage::Failed { until: now.instant + limits.cause },
            false => Stage::Works { until: limits.rest(now) },
        };
        Self { of_transactions: failure.is_none_or(Error::is_of_transactions), stage, limits, urgency }
    }

    /// Collects delivery reports, and returns the next action.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(in crate::relay) fn turn(
        &mut self,
        core: &mut Core<'_, impl Transport>,
        now: Now,
    ) -> Result<Drain, Error> {
        let obstacle = super::obstacle(&core.feed.out.flight.absorb(now)?);
        core.feed.report_snapshots();
        core.feed.out.flight.step(now, self.urgency)?;
        let store = core.position_to_store(core.feed.out.flight.is_settled(), now);
        let update = core.feedback.poll(now.instant, now.postgres());
        let settled = core.feed.out.flight.is_settled() && core.is_position_stored(now);
        let then = self.next(settled, core, now);
        Ok(Drain { update, store, obstacle, then })
    }

    /// Does the same when the session is over: nothing more is confirmed or stored.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(in crate::relay) fn wind_up(
        &mut self,
        core: &mut Core<'_, impl Transport>,
        now: Now,
    ) -> Result<Draining, Error> {
        core.feed.out.flight.absorb(now)?;
        core.feed.out.flight.step(now, self.urgency)?;
        let settled = core.feed.out.flight.is_settled();
        Ok(self.next(settled, core, now))
    }

    /// Returns the cause of the failure, as far as it is known now.
    pub(in crate::relay) fn cause(&self, core: &mut Core<'_, impl Transport>, now: Now) -> Option<Error> {
        let refusal = core.feed.take_refusal(now);
        let fault = if self.of_transactions { core.feed.out.flight.fault() } else { None };
        refusal.or(fault)
    }

    fn next(&mut self, settled: bool, core: &mut Core<'_, impl Transport>, now: Now) -> Draining {
        if settled {
            return Draining::Done;
        }
        if matches!(self.stage, Stage::Works { .. }) && core.feed.out.flight.has_failed() {
            self.stage = Stage::Failed { until: now.instant + self.limits.cause };
        }
        match self.stage {
            Stage::Failed { until } if now.instant >= until => {
                self.stage = Stage::GivenUp { until: self.limits.rest(now) };
                core.feed.out.flight.abandon();
                Draining::Purge
            }
            Stage::Works { until: Some(until) } | Stage::GivenUp { until: Some(until) }
                if now.instant >= until =>
            {
                Draining::Late
            }
            Stage::Works { .. } | Stage::Failed { .. } | Stage::GivenUp { .. } => Draining::Wait,
        }
    }

    /// Returns the time of the next turn at the latest.
    pub(in crate::relay) fn wake_at(&self, core: &Core<'_, impl Transport>, now: Now) -> Instant {
        let stage = match self.stage {
            Stage::Failed { until } => Some(until),
            Stage::Works { until } | Stage::GivenUp { until } => until,
        };
        let others = [stage, core.feed.out.flight.commit_due(), core.position_due(now)];
        others.into_iter().flatten().fold(core.feedback.due(), Instant::min)
    }
}

impl Limits {
    fn rest(&self, now: Now) -> Option<Instant> {
        self.rest.map(|rest| now.instant + rest)
    }
}
