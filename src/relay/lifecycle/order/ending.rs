//! Order of a session's end: the drain, the end of the stream or of its connection, and the wait for the records in flight.

use std::time::Duration;

use crate::error::{Class, Diagnose as _};
use crate::kafka::Transport;
use crate::relay::delivery::exactly_once::Urgency;
use crate::relay::error::Error;
use crate::relay::lifecycle::memory::Memory;
use crate::relay::origin::Origin;
use crate::relay::pipeline::core::{CAUSE_TIMEOUT, Core, Draining, Ending, Limits};
use crate::relay::time::clock::Now;
use crate::wal::Lsn;

/// Step after the stream.
#[derive(Debug)]
pub(in crate::relay) enum AfterStream {
    /// The session has drained: the stream ends with CopyDone.
    Finish,
    /// Nothing more is read. What Kafka acknowledges meanwhile is confirmed, until the cause of the failure is known and the rest has
    /// come back or has taken too long. Then the connection is closed.
    Drain(Error),
    /// The connection is closed at once: the server may be waiting for that.
    HangUp(Ended),
}

/// Result of a session.
#[derive(Debug)]
pub(in crate::relay) enum Ended {
    /// Everything is acknowledged and confirmed.
    Whole,
    /// `outboxd.shutdown.timeout.ms` is over, and Kafka has not acknowledged everything.
    Late,
    Failed(Error),
}

/// Place at which a session began.
#[derive(Debug)]
pub(in crate::relay) struct Beginning {
    pub(in crate::relay) origin: Origin,
    /// Confirmed position of the slot.
    pub(in crate::relay) confirmed: Lsn,
}

/// Session whose connection is closed. The next one must not start while its records are in flight: they would overtake each other.
#[derive(Debug)]
pub(in crate::relay) struct Settling {
    ended: Ended,
    ending: Ending,
    /// Every record has been reported, so that a refusal among them is known.
    is_settled: bool,
}

impl AfterStream {
    /// Decides after a stream that has drained or failed.
    pub(in crate::relay) fn of(outcome: Result<(), Error>) -> Self {
        match outcome {
            Ok(()) => Self::Finish,
            Err(error) if error.class() == Class::Definite || matches!(error, Error::Kafka(_)) => {
                Self::Drain(error)
            }
            Err(error) => Self::HangUp(Ended::Failed(error)),
        }
    }

    /// Decides about a stream that has not drained in time. Only the end of the process gives its records up.
    pub(in crate::relay) const fn overdue(stopping: bool, records: usize, within: Duration) -> Self {
        Self::HangUp(match stopping {
            true => Ended::Failed(Error::Undrained { records, within }),
            false => Ended::Late,
        })
    }
}

impl Ended {
    /// Returns the result of the end of a stream that has drained.
    pub(in crate::relay) fn finished(outcome: Result<(), Error>) -> Self {
        outcome.map_or_else(Self::Failed, |()| Self::Whole)
    }

    pub(in crate::relay) const fn has_failed(&self) -> bool {
        matches!(self, Self::Failed(_))
    }

    const fn failure(&self) -> Option<&Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Whole | Self::Late => None,
        }
    }

    /// Returns whether records may be in flight. After a definite error there is none, and the wait for Kafka was that of the drain,
    /// which has a limit.
    fn leaves_records(&self) -> bool {
        match self {
            Self::Whole => false,
            Self::Late => true,
            Self::Failed(error) => error.class() != Class::Definite,
        }
    }
}

impl Settling {
    /// Begins when the connection is closed.
    pub(in crate::relay) fn begin(
        ended: Ended,
        core: &mut Core<'_, impl Transport>,
        memory: &mut Memory,
        now: Now,
    ) -> Self {
        memory.stood_still = ended.has_failed() && core.stood_still(now);
        memory.drained(matches!(ended, Ended::Whole), core.feed.out.flight.frontier());
        // Kafka may be away for long.
        let limits = Limits { cause: CAUSE_TIMEOUT, rest: None };
        let ending = Ending::new(ended.failure(), core, Urgency::Over, limits, now);
        Self { ended, ending, is_settled: false }
    }

    /// Reads delivery reports, and returns the next action. The next session may start once it is done; a stop does not wait for it.
    ///
    /// # Errors
    /// When a report names a record that was never handed over.
    pub(in crate::relay) fn turn(
        &mut self,
        core: &mut Core<'_, impl Transport>,
        stopping: bool,
        now: Now,
    ) -> Result<Draining, Error> {
        if !self.ended.leaves_records() {
            return Ok(Draining::Done);
        }
        let then = self.ending.wind_up(core, now)?;
        self.is_settled = then == Draining::Done;
        Ok(if stopping { Draining::Done } else { then })
    }

    /// Remembers the session, which began there.
    ///
    /// # Errors
    /// With the failure that has ended it, or the refusal that came while its records were waited for: the next session needs another
    /// producer then.
    pub(in crate::relay) fn end(
        self,
        core: &mut Core<'_, impl Transport>,
        memory: &mut Memory,
        beginning: Beginning,
        now: Now,
    ) -> Result<(), Error> {
        let frontier = core.feed.out.flight.frontier();
        if let Some(snapshots) = core.feed.snapshots_at(frontier) {
            memory.snapshots = snapshots;
        }
        let refusal = if self.is_settled { core.feed.take_refusal(now) } else { None };
        let failure = refusal.or(match self.ended {
            Ended::Whole | Ended::Late => None,
            Ended::Failed(error) => Some(error),
        });
        memory.remember(beginning.origin, beginning.confirmed, &core.feed, failure.is_some(), now);
        failure.map_or(Ok(()), Err)
    }

    /// Returns the failure that has ended the session.
    #[cfg(test)]
    pub(in crate::relay) const fn failure(&self) -> Option<&Error> {
        self.ended.failure()
    }

    /// Returns whether it waits for records in flight.
    #[cfg(test)]
    pub(in crate::relay) fn waits(&self) -> bool {
        self.ended.leaves_records()
    }
}
