use std::time::{Duration, Instant};

use super::Core;
use crate::kafka::Transport;
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::exactly_once::Urgency;
use crate::relay::position::Keep;
use crate::replication::StandbyStatusUpdate;

/// How long the delivery report that tells the cause of a fatal producer error is awaited.
pub(in crate::relay) const CAUSE_TIMEOUT: Duration = Duration::from_secs(2);

/// How what is on its way comes back when no more rows are handed over, after a failure or at the end of a snapshot.
///
/// A fatal error of the producer has a cause: the record that was refused. It is known for certain once everything else has
/// come back, which is waited for; and what is acknowledged meanwhile is confirmed, so that it does not come again.
pub(in crate::relay) struct Ending {
    /// A transaction of Kafka may have failed: why, is known once it has ended.
    of_transactions: bool,
    stage: Stage,
    limits: Limits,
    urgency: Urgency,
}

/// How long an ending waits.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Limits {
    /// For the cause of a fatal error, before everything on its way is given up.
    pub(in crate::relay) cause: Duration,
    /// For the rest; `None` is as long as it takes.
    pub(in crate::relay) rest: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Cause { until: Instant },
    Rest { until: Option<Instant> },
}

/// What a turn of an ending has come to.
#[derive(Debug)]
pub(in crate::relay) struct Drain {
    /// For the server, if there still is one.
    pub(in crate::relay) update: Option<StandbyStatusUpdate>,
    /// The position to be written, if there still is a session.
    pub(in crate::relay) keep: Option<Keep>,
    /// What keeps Kafka from taking records.
    pub(in crate::relay) obstacle: Option<String>,
    pub(in crate::relay) then: Draining,
}

/// What is to be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Draining {
    /// Waiting for delivery reports.
    Wait,
    /// The producer gives up what is on its way.
    Purge,
    /// Everything has come back.
    Done,
    /// Not everything has come back in time.
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
            true => Stage::Cause { until: now.instant + limits.cause },
            false => Stage::Rest { until: limits.rest.map(|rest| now.instant + rest) },
        };
        Self { of_transactions: failure.is_none_or(Error::is_of_transactions), stage, limits, urgency }
    }

    /// Takes what has come back.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(in crate::relay) fn turn(
        &mut self,
        core: &mut Core<'_, impl Transport>,
        now: Now,
    ) -> Result<Drain, Error> {
        let obstacle = super::obstacle(&core.feed.out.flight.absorb(now)?);
        core.feed.tell_snapshots();
        core.feed.out.flight.step(now, self.urgency)?;
        let keep = core.keep_position(true, now);
        let update = core.feedback.poll(now.instant, now.postgres());
        let settled = core.feed.out.flight.is_settled() && core.is_kept(now);
        let then = self.next(settled, now);
        if then == Draining::Purge {
            core.feed.out.flight.abandon();
        }
        Ok(Drain { update, keep, obstacle, then })
    }

    /// What was behind the failure, as well as that is known now.
    pub(in crate::relay) fn cause(&self, core: &mut Core<'_, impl Transport>, now: Now) -> Option<Error> {
        let refusal = core.feed.take_refusal(now);
        let fault = if self.of_transactions { core.feed.out.flight.fault() } else { None };
        refusal.or(fault)
    }

    fn next(&mut self, settled: bool, now: Now) -> Draining {
        if settled {
            return Draining::Done;
        }
        match self.stage {
            Stage::Cause { until } if now.instant >= until => {
                self.stage = Stage::Rest { until: self.limits.rest.map(|rest| now.instant + rest) };
                Draining::Purge
            }
            Stage::Rest { until: Some(until) } if now.instant >= until => Draining::Late,
            Stage::Cause { .. } | Stage::Rest { .. } => Draining::Wait,
        }
    }

    /// When it has to be asked again at the latest.
    pub(in crate::relay) fn wake_at(&self, core: &Core<'_, impl Transport>, now: Now) -> Instant {
        let stage = match self.stage {
            Stage::Cause { until } => Some(until),
            Stage::Rest { until } => until,
        };
        let others = [stage, core.feed.out.flight.commit_due(), core.position_due(now)];
        others.into_iter().flatten().fold(core.feedback.due(), Instant::min)
    }
}
