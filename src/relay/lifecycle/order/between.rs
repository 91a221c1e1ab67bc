//! Order between two sessions: the step that the target requires, and what follows from a failure or from a slot that another client
//! has.

use std::time::{Duration, Instant};

use crate::kafka::Transport;
use crate::postgres::{APPLICATION, SlotHolder, SlotRetry};
use crate::relay::delivery::exactly_once::Batch;
use crate::relay::delivery::repeats::{RepeatRange, Repeats};
use crate::relay::error::Error;
use crate::relay::lifecycle::control::Target;
use crate::relay::lifecycle::memory::Memory;
use crate::relay::lifecycle::retry::{self, HeldSlot, Next, Situation, Step};
use crate::relay::options::Options;
use crate::relay::origin::Origin;
use crate::relay::pipeline::feed::Feed;
use crate::relay::progress::acknowledged::Acknowledged;
use crate::source_offset::SourceOffset;
use crate::wal::{Lsn, PgTimestamp};

/// Step of a relay that has no session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Between {
    End,
    /// It has no connection to PostgreSQL, so that another outboxd can have the slot and the server can be stopped.
    Pause,
    /// A start.
    Open,
}

/// Circumstances of a failure besides the memory of the process.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Circumstances {
    pub(in crate::relay) step: Step,
    /// True if PostgreSQL has accepted a login since the last failure.
    pub(in crate::relay) logged_in: bool,
    /// True if the relay was commanded to stop.
    pub(in crate::relay) stopping: bool,
    /// `errors.max.retries`
    pub(in crate::relay) retries_max: Option<u32>,
    /// Time left of `outboxd.startup.timeout.ms`, at the start.
    pub(in crate::relay) time_left: Option<Duration>,
    pub(in crate::relay) now: Instant,
    /// In 0..1.
    pub(in crate::relay) jitter: f64,
}

/// Stream that a session begins with.
#[derive(Debug)]
pub(in crate::relay) struct Streamed<'s> {
    pub(in crate::relay) origin: &'s Origin,
    pub(in crate::relay) confirmed: Lsn,
    /// End of the WAL when the stream had started.
    pub(in crate::relay) wal_end: Lsn,
    /// Time of the server's clock then.
    pub(in crate::relay) clock: PgTimestamp,
    /// The offset that was stored when this process began.
    pub(in crate::relay) stored: Option<&'s SourceOffset>,
    /// The process before this one had ended cleanly.
    pub(in crate::relay) follows_end: bool,
}

/// State that a session takes over from those before it.
#[derive(Debug)]
pub(in crate::relay) struct Inherited {
    pub(in crate::relay) acknowledged: Acknowledged,
    pub(in crate::relay) stored: Option<SourceOffset>,
    /// Another process may have sent last.
    pub(in crate::relay) follows_another: bool,
    /// No session of this process came before.
    pub(in crate::relay) is_first: bool,
}

impl Between {
    /// Decides from the target. With a pause another outboxd may have the slot from now on.
    pub(in crate::relay) fn of(target: Target, memory: &mut Memory) -> Self {
        match target {
            Target::Stop => Self::End,
            Target::Pause => {
                memory.release();
                Self::Pause
            }
            Target::Run | Target::Restart => Self::Open,
        }
    }
}

impl Inherited {
    /// Returns the state with which a session begins, after its stream has started and its transactions are taken over.
    pub(in crate::relay) fn of(streamed: Streamed<'_>, memory: &mut Memory) -> Self {
        let Streamed { origin, confirmed, wal_end, clock, stored, follows_end } = streamed;
        memory.begin(follows_end, wal_end);
        let (follows_another, is_first) = (memory.follows_another(confirmed), memory.known().is_none());
        let (acknowledged, stored) = memory.of(origin, stored, confirmed, clock);
        Self { acknowledged, stored, follows_another, is_first }
    }
}

/// Begins the feed of a session: what Kafka has is known before the first row.
pub(in crate::relay) fn begin_feed<T: Transport>(
    feed: &mut Feed<'_, T>,
    batch: Option<Batch>,
    options: &Options,
    repeat_range: RepeatRange,
) {
    feed.out.flight.in_transactions(batch);
    feed.out.dispatch.repeats = Repeats::new(options, repeat_range);
    feed.start();
}

/// Decides what follows a failure, and remembers the failure.
pub(in crate::relay) fn react(error: &Error, circumstances: Circumstances, memory: &mut Memory) -> Next {
    let Circumstances { step, logged_in, stopping, retries_max, time_left, now, jitter } = circumstances;
    if logged_in {
        memory.has_logged_in();
    }
    let fenced_again = step == Step::Session && memory.is_fenced_again(error, now);
    memory.was_refused(error, now);
    let situation = Situation {
        step,
        stopping,
        backoff: memory.backoff,
        retries_max,
        fruitless: memory.fruitless,
        fenced_again,
        reached_primary: memory.reached_primary,
        time_left,
        refused_for: memory.refused_for(),
    };
    let next = retry::after(error, situation, jitter);
    if let Next::Retry { .. } = next {
        memory.backoff = memory.backoff.counted();
    }
    next
}

/// Decides what follows when another client has the slot: another instance of this outboxd is stood by for.
pub(in crate::relay) fn react_to_holder(
    holder: &SlotHolder,
    retry: Option<SlotRetry>,
    time_left: Option<Duration>,
    jitter: f64,
    memory: &mut Memory,
) -> Next {
    let by_us = is_our_own(holder);
    if by_us {
        memory.stand_by(holder.has_slot);
    } else {
        memory.slot_retries = memory.slot_retries.saturating_add(1);
    }
    retry::after_held_slot(HeldSlot { by_us, retry, tries: memory.slot_retries, time_left }, jitter)
}

/// Returns whether the slot's holder is another instance of this outboxd: then this one stands by, and the slot is the lease.
pub(crate) fn is_our_own(holder: &SlotHolder) -> bool {
    holder.application.starts_with(APPLICATION) && holder.other.is_none()
}
