use std::time::{Duration, Instant};

use super::Error;
use super::backoff::Backoff;
use super::feed::Feed;
use super::link::Origin;
use crate::error::{Class, Diagnose};
use crate::kafka::Outlet;
use crate::source_offset::SourceOffset;
use crate::wal::Lsn;

/// What this process remembers from one session to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The last session's history and how far it is acknowledged.
    pub(super) acknowledged: Option<(Origin, Lsn)>,
    /// The newest offset of that history: ours, or the one that was stored when this process began.
    pub(super) offset: Option<SourceOffset>,
    /// Whether it is ours: what Debezium has stored is left as it is.
    pub(super) offset_is_ours: bool,
    pub(super) backoff: Backoff,
    pub(super) told_assumptions: bool,
    /// A primary was reached: if a standby answers at its address now, a failover is on its way.
    pub(super) reached_primary: bool,
    /// Another outboxd has had the slot since, and may have moved it on.
    pub(super) stood_by: bool,
    /// Tries at a slot that a foreign program holds.
    pub(super) slot_retries: u32,
    /// Sessions in a row that brought nothing forward.
    pub(super) fruitless: u32,
    /// How often in a row another producer has taken our transactions over, and when last.
    fenced: (u32, Option<Instant>),
}

/// After so many times it is no accident.
const FENCED_MAX: u32 = 3;

/// What is longer ago than this is no part of the row.
const FENCED_AGE_MAX: Duration = Duration::from_secs(600);

impl Memory {
    /// Whether another try at opening a link may succeed.
    pub(super) fn may_pass(&self, error: &Error) -> bool {
        error.class() == Class::Transient || self.reached_primary && error.is_standby()
    }

    /// Whether the patience at the start ends before the next try. Who has stood by is past the start, however long ago that
    /// was.
    pub(super) fn runs_out_of_patience(&self, deadline: Option<Instant>, pause: Duration) -> bool {
        !self.reached_primary && deadline.is_some_and(|deadline| Instant::now() + pause > deadline)
    }

    /// What a session has to know of those before: how far they were acknowledged, and the stored offset. Positions of
    /// another history mean nothing.
    pub(super) fn of(
        &mut self,
        history: &Origin,
        stored: Option<&SourceOffset>,
    ) -> (Lsn, Option<SourceOffset>) {
        match &self.acknowledged {
            None => self.offset = stored.cloned(),
            Some((origin, _)) if origin != history => self.offset = None,
            Some((_, acknowledged)) => return (*acknowledged, self.offset.clone()),
        }
        (Lsn::ZERO, self.offset.clone())
    }

    /// Whether a producer that has not the slot takes our transactions over again and again. Once tells nothing: it may have been
    /// a transaction that took too long, or the successor in the slot while we were paused, which gets it only if we
    /// have it no more.
    pub(super) fn is_fenced_again(&mut self, error: &Error, now: Instant) -> bool {
        if !error.is_fenced() || self.stood_by {
            return false;
        }
        let (times, last) = self.fenced;
        let recent = last.is_some_and(|last| now.saturating_duration_since(last) < FENCED_AGE_MAX);
        let times = if recent { times.saturating_add(1) } else { 1 };
        self.fenced = (times, Some(now));
        times > FENCED_MAX
    }

    pub(super) fn remember(&mut self, origin: Origin, confirmed: Lsn, feed: &Feed<'_, impl Outlet>) {
        let frontier = feed.flight.frontier();
        // A session that broke before it was as far as the last one knows less than we did.
        let known = self.acknowledged.take().filter(|(known, _)| *known == origin);
        let acknowledged = known.map_or(frontier, |(_, lsn)| lsn.max(frontier));
        self.acknowledged = Some((origin, acknowledged));
        self.stood_by = false;
        if let Some(offset) = feed.offset() {
            (self.offset, self.offset_is_ours) = (Some(offset), true);
        }
        if frontier > confirmed {
            (self.backoff, self.fruitless, self.slot_retries) = (Backoff::default(), 0, 0);
        } else {
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }
}
