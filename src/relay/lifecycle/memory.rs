//! The state of the process that a session leaves to the next one, and the conclusions from it about a slot and a failure.

use std::time::{Duration, Instant};

use super::retry::doubtful;
use crate::kafka::Transport;
use crate::relay::capture::captured::CapturedTables;
use crate::relay::error::Error;
use crate::relay::origin::Origin;
use crate::relay::pipeline::feed::Feed;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::relay::progress::comparison::{Known, StoredSnapshots};
use crate::relay::time::backoff::Backoff;
use crate::relay::time::clock::Now;
use crate::signal::StoredCheckpoint;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp};

/// State of this process that survives a session.
#[derive(Debug, Default)]
pub(in crate::relay) struct Memory {
    /// The last session's server and what of it is acknowledged.
    pub(in crate::relay) acknowledged: Option<(Origin, Acknowledged)>,
    /// The newest offset of that history: ours, or the one that was stored when this process began.
    pub(in crate::relay) offset: Option<SourceOffset>,
    /// True if outboxd stored it: Debezium's offset is left unchanged.
    pub(in crate::relay) offset_is_ours: bool,
    /// True if the last session ended with everything acknowledged, including what was sent before it:
    /// nothing is in Kafka behind the offset.
    pub(in crate::relay) drained_whole: bool,
    /// LSN before which outboxd may have sent rows without confirming them.
    sent_before: Lsn,
    /// Progress of incremental snapshots.
    pub(in crate::relay) snapshots: StoredCheckpoint,
    /// Every table that was captured.
    pub(in crate::relay) captured: CapturedTables,
    /// LSN that is confirmed before the snapshot of `snapshot.mode=always`; `None` once it is sent.
    pub(in crate::relay) snapshot_after: Option<Lsn>,
    pub(in crate::relay) backoff: Backoff,
    pub(in crate::relay) told_assumptions: bool,
    /// A primary was reached: if a standby answers at its address now, a failover is on its way.
    pub(in crate::relay) reached_primary: bool,
    /// The slot was not ours since: another outboxd has had it while we stood by, or may have had it in a pause, and may
    /// have moved it on.
    pub(in crate::relay) slot_released: bool,
    /// The slot was there while it was not ours.
    pub(in crate::relay) saw_slot: bool,
    /// The process has stood still with records on their way, at the end of the last session.
    pub(in crate::relay) stood_still: bool,
    /// Tries at a slot that a foreign program holds.
    pub(in crate::relay) slot_retries: u32,
    /// Sessions in a row that brought nothing forward.
    pub(in crate::relay) fruitless: u32,
    /// Doubtful refusal of the server that recurs without progress.
    refused: Option<Refusal>,
    /// Number of consecutive times that another producer has taken over outboxd's transactions, and the last
    /// time.
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

/// Class of the SQLSTATEs of refused logins.
const OF_LOGINS: &str = "28";

/// A refusal that comes after a longer time is a new one: pauses between attempts are 30 s at most.
const REFUSAL_GAP_MAX: Duration = Duration::from_secs(90);

/// Number of take-overs from which on it is no accident.
const FENCED_MAX: u32 = 3;

/// Age from which on a take-over does not count.
const FENCED_AGE_MAX: Duration = Duration::from_secs(600);

impl Memory {
    /// Returns what a session that begins at `confirmed` must know of those before: what is acknowledged, and
    /// the stored offset. Positions of another server or timeline mean nothing.
    pub(in crate::relay) fn of(
        &mut self,
        server: &Origin,
        stored: Option<&SourceOffset>,
        confirmed: Lsn,
        now: PgTimestamp,
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

    /// Returns the progress from which incremental snapshots continue: that of this process, unless another
    /// outboxd has had the slot since or this is the first session. The position of signals means nothing on
    /// another timeline, where they may have been lost.
    pub(in crate::relay) fn snapshots(
        &self,
        server: &Origin,
        kept: Option<StoredSnapshots>,
    ) -> StoredCheckpoint {
        let own = self
            .acknowledged
            .as_ref()
            .map(|(origin, _)| StoredSnapshots { origin: origin.clone(), kept: self.snapshots.clone() });
        let is_older = |kept: &StoredSnapshots| own.as_ref().is_some_and(|own| own.is_newer_than(kept));
        let Some(StoredSnapshots { origin, mut kept }) = kept.filter(|kept| !is_older(kept)).or(own) else {
            return StoredCheckpoint::default();
        };
        if origin != *server {
            kept.heeded = Lsn::ZERO;
        }
        kept
    }

    /// Returns whether a producer without the slot repeatedly takes over outboxd's transactions. A single
    /// time means nothing: it may have been a transaction that took too long, or the successor in the slot
    /// during a pause, which gets the slot only after it was released.
    pub(in crate::relay) fn is_fenced_again(&mut self, error: &Error, now: Instant) -> bool {
        if !error.is_fenced() || self.slot_released {
            return false;
        }
        let (times, last) = self.fenced;
        let recent = last.is_some_and(|last| now.saturating_duration_since(last) < FENCED_AGE_MAX);
        let times = if recent { times.saturating_add(1) } else { 1 };
        self.fenced = (times, Some(now));
        times > FENCED_MAX
    }

    /// Ends the time of refused logins: the server has accepted one.
    pub(in crate::relay) fn has_logged_in(&mut self) {
        self.refused.take_if(|refusal| refusal.code.starts_with(OF_LOGINS));
    }

    /// Remembers a failure, if it is a doubtful refusal by the server. Other failures in between, such as those of a restart, do not
    /// end it.
    pub(in crate::relay) fn was_refused(&mut self, error: &Error, now: Instant) {
        let Some(code) = doubtful(error).and_then(crate::postgres::Error::sqlstate) else { return };
        let known = self.refused.take().filter(|refusal| {
            refusal.code == code && now.saturating_duration_since(refusal.last) <= REFUSAL_GAP_MAX
        });
        let since = known.map_or(now, |refusal| refusal.since);
        self.refused = Some(Refusal { code: code.to_owned(), since, last: now });
    }

    /// Returns for how long the same doubtful refusal has come.
    pub(in crate::relay) fn refused_for(&self) -> Duration {
        self.refused
            .as_ref()
            .map_or(Duration::ZERO, |refusal| refusal.last.saturating_duration_since(refusal.since))
    }

    /// Begins a session. Unless the one before it ended with everything acknowledged, in this process or in
    /// that of `follows_end`, anything may have been sent up to the present end of the WAL.
    pub(in crate::relay) fn begin(&mut self, follows_end: bool, wal_end: Lsn) {
        let is_settled = follows_end || (self.drained_whole && !self.slot_released);
        self.sent_before = if is_settled { Lsn::ZERO } else { wal_end };
    }

    /// Records whether a session has drained. One that was stopped before it reached what was sent before it
    /// proves nothing.
    pub(in crate::relay) fn drained(&mut self, is_whole: bool, frontier: Lsn) {
        self.drained_whole = is_whole && frontier >= self.sent_before;
    }

    /// Records the end of a session, after a failure or a command.
    pub(in crate::relay) fn remember(
        &mut self,
        origin: Origin,
        confirmed: Lsn,
        feed: &Feed<'_, impl Transport>,
        failed: bool,
        now: Now,
    ) {
        let frontier = feed.out.flight.frontier();
        self.acknowledged = Some((origin, feed.acknowledged()));
        (self.slot_released, self.saw_slot) = (false, false);
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

    /// Returns what a start compares the slot with, after a session of this process.
    pub(in crate::relay) fn known(&self) -> Option<Known> {
        let (origin, acknowledged) = self.acknowledged.as_ref()?;
        Some(Known { origin: origin.clone(), to: acknowledged.to, shared: self.slot_released })
    }

    /// Returns whether another outboxd may have sent rows up to here since this process last did.
    pub(in crate::relay) fn follows_another(&self, confirmed: Lsn) -> bool {
        self.slot_released
            || self.acknowledged.as_ref().is_none_or(|(_, acknowledged)| confirmed > acknowledged.to)
    }

    /// Records that another outboxd has the slot, or is about to create it.
    pub(in crate::relay) const fn stand_by(&mut self, has_slot: bool) {
        (self.slot_released, self.reached_primary) = (true, true);
        self.saw_slot |= has_slot;
    }

    /// Records that a pause begins: from now on another outboxd may have the slot.
    pub(in crate::relay) fn release(&mut self) {
        self.slot_released = true;
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
            // Another code, or a long time without it, restarts the count.
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
    fn a_login_ends_the_time_of_refused_logins() {
        let source = |code: &str| Box::new(ServerError { code: code.to_owned(), ..ServerError::default() });
        let [address, user, database] = ["db:5432", "relay", "orders"].map(str::to_owned);
        let renewable = Some("database.password".to_owned());
        let login = postgres::Error::Login { address, user, database, renewable, source: source("28P01") };
        let decoder = postgres::Error::Server { doing: "streaming".to_owned(), source: source("58P01") };
        let (start, mut memory) = (Instant::now(), Memory::default());
        for (error, expected) in [(Error::from(login), 0), (decoder.into(), 30)] {
            memory.was_refused(&error, start);
            memory.has_logged_in();
            memory.was_refused(&error, start + Duration::from_secs(30));
            assert_eq!(memory.refused_for().as_secs(), expected, "{error}");
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
        memory.release();
        assert!(!drained(&mut memory, false, begun), "another outboxd may have sent since");
    }
}
