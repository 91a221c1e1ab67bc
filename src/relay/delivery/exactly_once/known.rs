//! Events that are in Kafka before a start, and the check that the source has the same history.

use std::cmp::Ordering;

use super::state::{Place, Seen, Source, State};
use crate::transaction::{Divergence, EventPosition, Identity};
use crate::wal::{Lsn, PgTimestamp, SystemId, TimelineId, Xid};

/// Size of a WAL page. At the beginning of a page, the last record's end may be reported before or behind the
/// page's header.
const WAL_PAGE_BYTES: u64 = 8192;

/// Part of the stream that is in Kafka already, according to the state that was read at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    place: Option<Place>,
    /// Part of the history that identifies it.
    seen: Option<Seen>,
    /// Transactions that commit from here on are of another history than the state.
    until: Option<Lsn>,
    /// The stream is asked for otherwise than the state's.
    restreamed: bool,
    /// Events of the transaction at the place that must arrive until the place is reached, if the state
    /// counts events.
    counted: Option<Counted>,
    /// The transaction at the place must come again, and has not yet.
    awaited: bool,
    /// Fault of the open transaction, if it is one that lies before the place.
    wrong: Option<Divergence>,
    /// Time of the server's clock at the start.
    now: PgTimestamp,
}

/// Events up to a place, and the last record of the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counted {
    left: u64,
    part: u32,
    /// The last one that was counted.
    last: Option<EventPosition>,
}

/// Start of a stream for which a state exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Begins {
    /// The slot's `confirmed_flush_lsn`.
    pub(crate) at: Lsn,
    /// The end of the WAL, asked for after the state was read.
    pub(crate) wal_end: Lsn,
    /// The server's clock.
    pub(crate) now: PgTimestamp,
}

/// The history that a server's WAL has: when it left its earlier timelines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Timelines {
    pub(crate) switches: Vec<(TimelineId, Lsn)>,
}

/// Reasons for which a state cannot be continued: skipping what it describes could lose rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// Another cluster.
    #[error("it is from the cluster with system identifier {state}, and this one has {server}")]
    System {
        /// The state's.
        state: SystemId,
        /// The server's.
        server: SystemId,
    },
    /// Another database.
    #[error("it is from database {state:?}, and this is {server:?}")]
    Database {
        /// The state's.
        state: String,
        /// The server's.
        server: String,
    },
    /// A timeline that is none of the server's.
    #[error("it is from timeline {state}, which is not in the history of this server's timeline {server}")]
    Timeline {
        /// The state's.
        state: TimelineId,
        /// The server's.
        server: TimelineId,
    },
    /// The server has other transactions where the state's were.
    #[error("a copy or a backup of the database was put back")]
    History(#[from] Divergence),
    /// A WAL that ends before.
    #[error("it is at {state}, beyond the end of the server's WAL at {wal_end}")]
    Ahead {
        /// End of the state.
        state: Lsn,
        /// End of the server's WAL.
        wal_end: Lsn,
    },
}

impl Known {
    /// Creates it without a state. The server's clock `now` is later than everything that was read before.
    pub(crate) const fn nothing(now: PgTimestamp) -> Self {
        Self {
            place: None,
            seen: None,
            until: None,
            restreamed: false,
            counted: None,
            awaited: false,
            wrong: None,
            now,
        }
    }

    /// Compares a state with this source, and returns what is in Kafka.
    pub(crate) fn new(
        state: &State,
        source: &Source,
        timelines: &Timelines,
        begins: Begins,
    ) -> Result<Self, Mismatch> {
        let State { source: then, place, seen, .. } = state;
        let Begins { at, wal_end, now } = begins;
        if then.system_id != source.system_id {
            let (state, server) = (then.system_id.clone(), source.system_id.clone());
            return Err(Mismatch::System { state, server });
        }
        if then.database != source.database {
            let (state, server) = (then.database.clone(), source.database.clone());
            return Err(Mismatch::Database { state, server });
        }
        let restreamed = then.stream != source.stream;
        let known = |until: Option<Lsn>| {
            let commit_lsn = place.event.commit_lsn;
            // Other options may leave the transaction out, and a lost primary may have had it alone.
            let awaited = !restreamed && at <= commit_lsn && until.is_none_or(|until| commit_lsn < until);
            // With other options events are counted otherwise: the transaction is sent as a whole.
            let left = place.counted.map(|last| if restreamed { 0 } else { last.saturating_add(1) });
            let counted = left.map(|left| Counted { left, part: place.event.part, last: None });
            let place = Some(match counted {
                Some(_) => Place { event: EventPosition::begin(commit_lsn).end_of_event(), ..*place },
                None => *place,
            });
            Self { place, seen: *seen, until, restreamed, counted, awaited, ..Self::nothing(now) }
        };
        if then.timeline == source.timeline {
            let state = place.furthest();
            if wal_end.get().saturating_add(WAL_PAGE_BYTES) < state.get() {
                return Err(Mismatch::Ahead { state, wal_end });
            }
            return Ok(known(None));
        }
        let Some(left) = timelines.left(then.timeline) else {
            return Err(Mismatch::Timeline { state: then.timeline, server: source.timeline });
        };
        Ok(known(Some(left)))
    }

    /// Returns the place from which the stream continues, and the transaction there, if the stream agrees
    /// with the state.
    pub(crate) fn resume_place(&self) -> Option<(Place, Option<(Xid, PgTimestamp)>)> {
        let place = self.place.filter(|_| !self.restreamed && self.until.is_none())?;
        Some((place, self.seen.and_then(|seen| seen.transaction)))
    }

    /// Checks a transaction that begins.
    ///
    /// # Errors
    /// When the state's own transaction is not where it was.
    pub(crate) fn begin(&mut self, commit_lsn: Lsn, identity: Identity) -> Result<(), Divergence> {
        let Some(place) = self.place.map(|place| place.event.commit_lsn) else { return Ok(()) };
        self.wrong = self.is_later(commit_lsn, identity);
        match commit_lsn.cmp(&place) {
            Ordering::Less => {}
            Ordering::Equal if self.awaited && !self.is_own(identity) => {
                return Err(self.wrong.unwrap_or(Divergence::Other(commit_lsn)));
            }
            Ordering::Equal => self.awaited = false,
            Ordering::Greater if self.awaited => return Err(Divergence::Missing(place)),
            Ordering::Greater => {}
        }
        Ok(())
    }

    /// Checks the state against the stream, which has arrived up to `wal_end`.
    ///
    /// # Errors
    /// When the state's own transaction did not arrive.
    pub(crate) fn reach(&self, wal_end: Lsn) -> Result<(), Divergence> {
        match self.place.map(|place| place.event.commit_lsn) {
            Some(place) if self.awaited && place < wal_end => Err(Divergence::Missing(place)),
            Some(_) | None => Ok(()),
        }
    }

    /// Returns whether the state's own transaction must still arrive again. Until then what lies before it is
    /// not verified.
    pub(crate) const fn is_awaiting(&self) -> bool {
        self.awaited
    }

    /// Counts an event of the stream. If the state counts events, its place moves with them until that number
    /// has arrived. An event whose message is given again counts once.
    pub(crate) fn count_event(&mut self, event: EventPosition) {
        let (Some(place), Some(Counted { left, part, last })) = (&mut self.place, &mut self.counted) else {
            return;
        };
        if event.commit_lsn != place.event.commit_lsn || *left == 0 || *last >= Some(event) {
            return;
        }
        *last = Some(event);
        *left = left.saturating_sub(1);
        place.event = if *left == 0 { EventPosition { part: *part, ..event } } else { event.end_of_event() };
    }

    /// Returns whether an event of the stream is in Kafka.
    ///
    /// # Errors
    /// When another event at its position is.
    pub(crate) fn has(&self, event: EventPosition) -> Result<bool, Divergence> {
        match (self.reaches(event), self.wrong) {
            (true, Some(wrong)) => Err(wrong),
            (reaches, _) => Ok(reaches),
        }
    }

    fn reaches(&self, event: EventPosition) -> bool {
        let Some(place) = &self.place else { return false };
        if self.until.is_some_and(|until| event.commit_lsn >= until) {
            return false;
        }
        match event.commit_lsn.cmp(&place.event.commit_lsn) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal if place.end_lsn.is_some() => true,
            Ordering::Equal => event <= place.last(),
        }
    }

    /// Returns the latest commit time, by the server's clock, of everything that is in Kafka.
    pub(crate) fn latest(&self) -> PgTimestamp {
        self.seen.map_or(self.now, |seen| seen.latest)
    }

    fn is_later(&self, commit_lsn: Lsn, identity: Identity) -> Option<Divergence> {
        let (commit_time, latest) = (identity.commit_time()?, self.seen?.latest);
        (commit_time > latest).then_some(Divergence::Later { commit_lsn, commit_time, latest })
    }

    /// Returns whether this is the transaction at the place, as far as the state identifies it.
    fn is_own(&self, identity: Identity) -> bool {
        let Some(Seen { transaction, .. }) = self.seen else { return true };
        match identity {
            Identity::Transaction { xid, commit_time } => transaction == Some((xid, commit_time)),
            Identity::Message(_) => transaction.is_none(),
        }
    }

    /// Returns the range of rows that were sent and that this server never had, because it did not have them
    /// when it took over.
    pub(crate) fn phantoms(&self) -> Option<(Lsn, Lsn)> {
        let (place, until) = (self.place?, self.until?);
        (place.furthest() > until).then_some((until, place.furthest()))
    }
}

impl Timelines {
    /// Parses the rows of `TIMELINE_HISTORY`: in each line a timeline, the LSN where it ended, and why.
    pub(crate) fn parse(history: &str) -> Self {
        let switch = |line: &str| {
            let mut fields = line.split_whitespace();
            let timeline = fields.next()?.parse().ok().map(TimelineId)?;
            Some((timeline, fields.next()?.parse().ok()?))
        };
        let lines = history.lines().filter(|line| !line.trim_start().starts_with('#'));
        Self { switches: lines.filter_map(switch).collect() }
    }

    /// Returns the end of the history of this timeline: where it ended, or an earlier point from which a
    /// later one continued.
    fn left(&self, timeline: TimelineId) -> Option<Lsn> {
        let from = self.switches.iter().position(|(left, _)| *left == timeline)?;
        self.switches.iter().skip(from).map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
