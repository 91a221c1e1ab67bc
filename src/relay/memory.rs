use std::time::{Duration, Instant};

use super::acknowledged::Acknowledged;
use super::backoff::Backoff;
use super::capture::CapturedTables;
use super::clock::Now;
use super::comparison::{KeptSnapshots, Known};
use super::error::Error;
use super::feed::Feed;
use super::origin::Origin;
use super::retry::doubtful;
use crate::kafka::Transport;
use crate::signal::KeptCheckpoint;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp};

/// What this process remembers from one session to the next.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The last session's server and what of it is acknowledged.
    pub(super) acknowledged: Option<(Origin, Acknowledged)>,
    /// The newest offset of that history: ours, or the one that was stored when this process began.
    pub(super) offset: Option<SourceOffset>,
    /// Whether it is ours: what Debezium has stored is left as it is.
    pub(super) offset_is_ours: bool,
    /// Whether the last session ended with everything acknowledged, and what was sent before it too: nothing is in Kafka behind the offset.
    pub(super) drained_whole: bool,
    /// What outboxd may have sent before and not confirmed lies in front of this.
    sent_before: Lsn,
    /// How far incremental snapshots are.
    pub(super) snapshots: KeptCheckpoint,
    /// Every table that was captured.
    pub(super) captured: CapturedTables,
    pub(super) backoff: Backoff,
    pub(super) told_assumptions: bool,
    /// A primary was reached: if a standby answers at its address now, a failover is on its way.
    pub(super) reached_primary: bool,
    /// The slot was not ours since: another outboxd has had it while we stood by, or may have had it in a pause, and may
    /// have moved it on.
    pub(super) let_go: bool,
    /// The slot was there while it was not ours.
    pub(super) saw_slot: bool,
    /// The process has stood still with records on their way, at the end of the last session.
    pub(super) stood_still: bool,
    /// Tries at a slot that a foreign program holds.
    pub(super) slot_retries: u32,
    /// Sessions in a row that brought nothing forward.
    pub(super) fruitless: u32,
    /// The server's doubtful refusal that comes again and again, with nothing brought forward.
    refused: Option<Refusal>,
    /// How often in a row another producer has taken our transactions over, and when last.
    fenced: (u32, Option<Instant>),
}

/// A doubtful refusal by the server.
#[derive(Debug)]
struct Refusal {
    /// SQLSTATE.
    code: String,
    since: Instant,
    last: Instant,
}

/// A refusal that comes after a longer time is a new one: pauses between attempts are 30 s at most.
const REFUSAL_GAP_MAX: Duration = Duration::from_secs(90);

/// After so many times it is no accident.
const FENCED_MAX: u32 = 3;

/// What is longer ago than this is no part of the row.
const FENCED_AGE_MAX: Duration = Duration::from_secs(600);

impl Memory {
    /// What a session that begins at `confirmed` has to know of those before: what is acknowledged, and the stored offset.
    /// Positions of another server or timeline mean nothing.
    pub(super) fn of(
        &mut self,
        server: &Origin,
        stored: Option<&SourceOffset>,
        (confirmed, now): (Lsn, PgTimestamp),
    ) -> (Acknowledged, Option<SourceOffset>) {
        match &self.acknowledged {
            None => self.offset = stored.cloned(),
            Some((origin, _)) if origin != server => self.offset = None,
            Some((_, acknowledged)) => {
                let mut acknowledged = acknowledged.clone();
                if confirmed > acknowledged.to {
                    acknowledged.history.pass_on(now);
                }
                acknowledged.history.resume(confirmed);
                return (acknowledged, self.offset.clone());
            }
        }
        (Acknowledged::nothing(now), self.offset.clone())
    }

    /// Where incremental snapshots go on: as this process knows it, unless another outboxd has had the slot since or this is the
    /// first session. Where signals were heeded means nothing on another timeline: they may have been lost with it.
    pub(super) fn snapshots(&self, server: &Origin, kept: Option<KeptSnapshots>) -> KeptCheckpoint {
        let own = self
            .acknowledged
            .as_ref()
            .map(|(origin, _)| KeptSnapshots { origin: origin.clone(), kept: self.snapshots.clone() });
        let is_older = |kept: &KeptSnapshots| own.as_ref().is_some_and(|own| own.is_newer_than(kept));
        let Some(KeptSnapshots { origin, mut kept }) = kept.filter(|kept| !is_older(kept)).or(own) else {
            return KeptCheckpoint::default();
        };
        if origin != *server {
            kept.heeded = Lsn::ZERO;
        }
        kept
    }

    /// Whether a producer that has not the slot takes our transactions over again and again. Once tells nothing: it may have been
    /// a transaction that took too long, or the successor in the slot while we were paused, which gets it only if we
    /// have it no more.
    pub(super) fn is_fenced_again(&mut self, error: &Error, now: Instant) -> bool {
        if !error.is_fenced() || self.let_go {
            return false;
        }
        let (times, last) = self.fenced;
        let recent = last.is_some_and(|last| now.saturating_duration_since(last) < FENCED_AGE_MAX);
        let times = if recent { times.saturating_add(1) } else { 1 };
        self.fenced = (times, Some(now));
        times > FENCED_MAX
    }

    /// Remembers a failure, if it is a doubtful refusal by the server. Other failures in between, such as those of a restart, do not
    /// end it.
    pub(super) fn was_refused(&mut self, error: &Error, now: Instant) {
        let Some(code) = doubtful(error).and_then(crate::postgres::Error::sqlstate) else { return };
        let known = self.refused.take().filter(|refusal| {
            refusal.code == code && now.saturating_duration_since(refusal.last) <= REFUSAL_GAP_MAX
        });
        let since = known.map_or(now, |refusal| refusal.since);
        self.refused = Some(Refusal { code: code.to_owned(), since, last: now });
    }

    /// Returns for how long the same doubtful refusal has come.
    pub(super) fn refused_for(&self) -> Duration {
        self.refused
            .as_ref()
            .map_or(Duration::ZERO, |refusal| refusal.last.saturating_duration_since(refusal.since))
    }

    /// A session begins. Unless the one before it ended with everything acknowledged, in this process or in that of `follows_end`, up to where
    /// the WAL ends now anything may have been sent.
    pub(super) fn begin(&mut self, follows_end: bool, wal_end: Lsn) {
        let is_settled = follows_end || (self.drained_whole && !self.let_go);
        self.sent_before = if is_settled { Lsn::ZERO } else { wal_end };
    }

    /// A session has drained, or has not. One that was stopped before it came to what was sent before it proves nothing.
    pub(super) fn drained(&mut self, is_whole: bool, frontier: Lsn) {
        self.drained_whole = is_whole && frontier >= self.sent_before;
    }

    /// A session has ended, because it failed or because it was to end.
    pub(super) fn remember(
        &mut self,
        origin: Origin,
        confirmed: Lsn,
        feed: &Feed<'_, impl Transport>,
        failed: bool,
        now: Now,
    ) {
        let frontier = feed.out.flight.frontier();
        self.acknowledged = Some((origin, feed.acknowledged()));
        (self.let_go, self.saw_slot) = (false, false);
        if let Some(offset) = feed.offset(now) {
            (self.offset, self.offset_is_ours) = (Some(offset), true);
        }
        if frontier > confirmed {
            (self.backoff, self.fruitless, self.slot_retries) = (Backoff::default(), 0, 0);
            self.refused = None;
        } else if failed {
            self.fruitless = self.fruitless.saturating_add(1);
        }
    }

    /// What a start has to compare the slot with, after a session of this process.
    pub(super) fn known(&self) -> Option<Known> {
        let (origin, acknowledged) = self.acknowledged.as_ref()?;
        Some(Known { origin: origin.clone(), to: acknowledged.to, shared: self.let_go })
    }

    /// Whether another outboxd may have sent rows up to here since this process last did.
    pub(super) fn follows_another(&self, confirmed: Lsn) -> bool {
        self.let_go || self.acknowledged.as_ref().is_none_or(|(_, acknowledged)| confirmed > acknowledged.to)
    }

    /// Another outboxd has the slot, or is about to make it.
    pub(super) const fn stand_by(&mut self, has_slot: bool) {
        (self.let_go, self.reached_primary) = (true, true);
        self.saw_slot |= has_slot;
    }

    /// A pause begins: from now on another may have the slot.
    pub(super) fn let_go(&mut self) {
        self.let_go = true;
        // It was there when we had it.
        self.saw_slot |= self.acknowledged.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres;
    use crate::wire::ServerError;

    #[test]
    fn a_refusal_lasts_from_its_first_time() {
        let refusal = |code: &str| -> Error {
            let source = Box::new(ServerError { code: code.to_owned(), ..ServerError::default() });
            postgres::Error::Server { doing: "streaming".to_owned(), source }.into()
        };
        let (start, mut memory) = (Instant::now(), Memory::default());
        let cases = [
            (0, "58P01", 0),
            (30, "57P03", 0),
            (60, "58P01", 60),
            (150, "58P01", 150),
            // Another code, or a long time without it, begins anew.
            (160, "55000", 0),
            (170, "55000", 10),
            (261, "55000", 0),
        ];
        for (seconds, code, expected) in cases {
            memory.was_refused(&refusal(code), start + Duration::from_secs(seconds));
            assert_eq!(memory.refused_for().as_secs(), expected, "{seconds} {code}");
        }
    }

    #[test]
    fn a_stop_is_clean_when_it_has_come_to_what_a_crash_may_have_sent() {
        let (begun, end) = (Lsn::new(10), Lsn::new(20));
        let drained = |memory: &mut Memory, follows_end, frontier| {
            memory.begin(follows_end, end);
            memory.drained(true, frontier);
            memory.drained_whole
        };
        assert!(drained(&mut Memory::default(), true, begun));
        let mut memory = Memory::default();
        assert!(!drained(&mut memory, false, begun));
        assert!(!drained(&mut memory, false, begun), "nor does the next session in this process know");
        assert!(drained(&mut memory, false, end));
        assert!(drained(&mut memory, false, begun), "the one before has come to it");
        memory.let_go();
        assert!(!drained(&mut memory, false, begun), "another outboxd may have sent since");
    }
}
