use std::cmp::Ordering;

use super::state::{Place, Seen, Source, State};
use crate::transaction::{Divergence, EventPosition, Identity};
use crate::wal::{Lsn, PgTimestamp, SystemId, TimelineId, Xid};

/// Where a page of WAL begins, the last record's end may be told before or behind the page's header.
const WAL_PAGE_BYTES: u64 = 8192;

/// What of the stream is in Kafka already, as the state says that was read at the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    place: Option<Place>,
    /// By what the history is known again.
    seen: Option<Seen>,
    /// Transactions that commit from here on are of another history than the state.
    until: Option<Lsn>,
    /// The rows of the transaction at the place are numbered otherwise now: it is sent as a whole.
    renumbered: bool,
    /// The transaction at the place must come again, and has not yet.
    awaited: bool,
    /// What is wrong with the open transaction, if it is one that lies before the place.
    wrong: Option<Divergence>,
    /// What the server's clock said at the start.
    now: PgTimestamp,
}

/// Where a stream begins, of which a state says what is in Kafka.
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

/// Why a state cannot be gone on from: passing over what it says is in Kafka could lose rows.
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
        /// How far the state goes.
        state: Lsn,
        /// How far the server has written.
        wal_end: Lsn,
    },
}

impl Known {
    /// Nothing is known; what the server's clock says `now` is later than all that was read before.
    pub(crate) const fn nothing(now: PgTimestamp) -> Self {
        Self { place: None, seen: None, until: None, renumbered: false, awaited: false, wrong: None, now }
    }

    /// What a state says to a stream from this source.
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
        let renumbered = then.stream != source.stream;
        let known = |until: Option<Lsn>| {
            let commit_lsn = place.event.commit_lsn;
            // Other options may leave the transaction out, and a lost primary may have had it alone.
            let awaited = !renumbered && at <= commit_lsn && until.is_none_or(|until| commit_lsn < until);
            let place = Some(*place);
            Self { place, seen: *seen, until, renumbered, awaited, ..Self::nothing(now) }
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

    /// The place from which the stream goes on, and the transaction there, if the stream is as the state has it.
    pub(crate) fn goes_on_from(&self) -> Option<(Place, Option<(Xid, PgTimestamp)>)> {
        let place = self.place.filter(|_| !self.renumbered && self.until.is_none())?;
        Some((place, self.seen.and_then(|seen| seen.transaction)))
    }

    /// A transaction begins.
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

    /// Everything before `wal_end` has come.
    ///
    /// # Errors
    /// When the state's own transaction did not.
    pub(crate) fn reach(&self, wal_end: Lsn) -> Result<(), Divergence> {
        match self.place.map(|place| place.event.commit_lsn) {
            Some(place) if self.awaited && place < wal_end => Err(Divergence::Missing(place)),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether the state's own transaction must still come again. Until then nothing is certain of what lies before it.
    pub(crate) const fn is_awaiting(&self) -> bool {
        self.awaited
    }

    /// Whether an event of the stream is in Kafka.
    ///
    /// # Errors
    /// When another event at its place is.
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
            Ordering::Equal => !self.renumbered && event <= place.last(),
        }
    }

    /// Nothing that is in Kafka committed later than this, by the server's clock.
    pub(crate) fn latest(&self) -> PgTimestamp {
        self.seen.map_or(self.now, |seen| seen.latest)
    }

    fn is_later(&self, commit_lsn: Lsn, identity: Identity) -> Option<Divergence> {
        let (commit_time, latest) = (identity.commit_time()?, self.seen?.latest);
        (commit_time > latest).then_some(Divergence::Later { commit_lsn, commit_time, latest })
    }

    /// Whether this is the transaction at the place, as far as the state tells.
    fn is_own(&self, identity: Identity) -> bool {
        let Some(Seen { transaction, .. }) = self.seen else { return true };
        match identity {
            Identity::Transaction { xid, commit_time } => transaction == Some((xid, commit_time)),
            Identity::Message(_) => transaction.is_none(),
        }
    }

    /// Up to where rows were sent that this server never had, if there are any: it did not have them when it took over.
    pub(crate) fn phantoms(&self) -> Option<(Lsn, Lsn)> {
        let (place, until) = (self.place?, self.until?);
        (place.furthest() > until).then_some((until, place.furthest()))
    }
}

impl Timelines {
    /// From the rows that `TIMELINE_HISTORY` answers with: in each line a timeline, where it was left, and why.
    pub(crate) fn parse(history: &str) -> Self {
        let switch = |line: &str| {
            let mut fields = line.split_whitespace();
            let timeline = fields.next()?.parse().ok().map(TimelineId)?;
            Some((timeline, fields.next()?.parse().ok()?))
        };
        let lines = history.lines().filter(|line| !line.trim_start().starts_with('#'));
        Self { switches: lines.filter_map(switch).collect() }
    }

    /// Where the history that this timeline knew ends: where it was left, or an earlier point from which a later one
    /// went on.
    fn left(&self, timeline: TimelineId) -> Option<Lsn> {
        let from = self.switches.iter().position(|(left, _)| *left == timeline)?;
        self.switches.iter().skip(from).map(|(_, at)| *at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wal::Xid;

    const BEGINS: Begins = Begins { at: Lsn::ZERO, wal_end: Lsn::new(1_000), now: PgTimestamp(5_000) };

    fn source(timeline: u32) -> Source {
        Source {
            system_id: SystemId("1".to_owned()),
            timeline: TimelineId(timeline),
            database: "d".to_owned(),
            database_oid: None,
            slot: "s".to_owned(),
            stream: "o".to_owned(),
        }
    }

    fn at(commit_lsn: u64, ordinal: u64) -> EventPosition {
        EventPosition::new(Lsn::new(commit_lsn), ordinal)
    }

    fn state(timeline: u32, end_lsn: Option<u64>) -> State {
        let place = Place { end_lsn: end_lsn.map(Lsn::new), ..Place::inside(at(100, 5), false) };
        State { source: source(timeline), place, topics: Vec::new(), seen: None, snapshots: None }
    }

    fn known(state: &State, now: &Source, history: &str) -> Result<Known, Mismatch> {
        Known::new(state, now, &Timelines::parse(history), BEGINS)
    }

    #[test]
    fn what_is_in_kafka_ends_at_the_place() {
        let other = Source { stream: "p".to_owned(), ..source(1) };
        let cases: [(_, _, &[EventPosition], &[EventPosition]); 4] = [
            (state(1, None), source(1), &[at(99, 900), at(100, 0), at(100, 5)], &[at(100, 6), at(101, 0)]),
            (state(1, Some(140)), source(1), &[at(100, 5), at(100, 6)], &[at(101, 0), at(140, 0)]),
            (state(1, None), other.clone(), &[at(99, 900)], &[at(100, 0), at(100, 5), at(101, 0)]),
            (state(1, Some(140)), other, &[at(100, 6)], &[at(101, 0)]),
        ];
        for (state, now, has, has_not) in cases {
            let known = known(&state, &now, "").unwrap();
            has.iter().for_each(|event| assert!(known.has(*event).unwrap(), "{state:?} {event:?}"));
            has_not.iter().for_each(|event| assert!(!known.has(*event).unwrap(), "{state:?} {event:?}"));
        }
        assert!(!Known::nothing(BEGINS.now).has(at(0, 0)).unwrap());
    }

    #[test]
    fn of_an_event_that_is_not_complete_the_rest_is_missing() {
        let second = at(100, 5).next_part();
        for (more, has_third) in [(true, false), (false, true)] {
            let state = State { place: Place::inside(second, more), ..state(1, None) };
            let known = known(&state, &source(1), "").unwrap();
            assert!(known.has(at(100, 5)).unwrap() && known.has(second).unwrap());
            assert_eq!(known.has(second.next_part()).unwrap(), has_third);
            assert_eq!(known.has(second.end_of_event()).unwrap(), has_third);
            assert!(!known.has(at(100, 6)).unwrap());
        }
    }

    #[test]
    fn behind_the_end_of_a_timeline_nothing_is_in_kafka() {
        let history = "# comment\n1\t0/60\tno recovery target specified\n2\t0/64\treason\n";
        let cases = [
            // Timeline, known at 96 (0/60), at 99, phantoms.
            (1, false, false, Some((Lsn::new(0x60), Lsn::new(140)))),
            (2, true, true, Some((Lsn::new(0x64), Lsn::new(140)))),
            (3, true, true, None),
        ];
        for (timeline, at_96, at_99, phantoms) in cases {
            let known = known(&state(timeline, Some(140)), &source(3), history).unwrap();
            assert!(known.has(at(95, 0)).unwrap());
            assert_eq!(
                (known.has(at(96, 0)).unwrap(), known.has(at(99, 0)).unwrap()),
                (at_96, at_99),
                "{timeline}"
            );
            assert_eq!(known.has(at(100, 0)).unwrap(), timeline == 3, "{timeline}");
            assert_eq!(known.phantoms(), phantoms, "{timeline}");
        }
    }

    #[test]
    fn a_later_timeline_may_begin_before_an_earlier_one() {
        let known = known(&state(1, Some(140)), &source(3), "1\t0/60\twhy\n2\t0/50\twhy").unwrap();
        assert!(known.has(at(0x4F, 0)).unwrap() && !known.has(at(0x50, 0)).unwrap());
    }

    /// At 100, in transaction 7, which committed at 50; something before it committed at 60.
    fn seen(timeline: u32) -> State {
        let transaction = Some((Xid(7), PgTimestamp(50)));
        State { seen: Some(Seen { latest: PgTimestamp(60), transaction }), ..state(timeline, Some(140)) }
    }

    fn begin(known: &mut Known, at: u64, xid: u32, time: i64) -> Result<(), Divergence> {
        let identity = Identity::Transaction { xid: Xid(xid), commit_time: PgTimestamp(time) };
        known.begin(Lsn::new(at), identity)
    }

    #[test]
    fn what_is_later_than_the_state_is_not_in_kafka_wherever_it_stands() {
        let mut known = known(&seen(1), &source(1), "").unwrap();
        assert_eq!(known.latest(), PgTimestamp(60));
        for (xid, time, expected) in [(3, 40, true), (4, 60, true), (5, 61, false)] {
            // One without a row for us does no harm.
            begin(&mut known, 90, xid, time).unwrap();
            let has = known.has(at(90, 0));
            assert_eq!(has.is_ok_and(|has| has), expected, "{time}: {has:?}");
        }
        begin(&mut known, 100, 7, 50).unwrap();
        begin(&mut known, 150, 8, 70).unwrap();
        assert_eq!(known.has(at(150, 0)), Ok(false), "it lies behind the place");
    }

    #[test]
    fn the_states_own_transaction_must_come_again() {
        let other = Divergence::Other(Lsn::new(100));
        let missing = Divergence::Missing(Lsn::new(100));
        let cases = [
            (100, 7, 50, None),
            (100, 7, 49, Some(other)),
            (100, 8, 50, Some(other)),
            (101, 7, 50, Some(missing)),
        ];
        for (at, xid, time, expected) in cases {
            let mut known = known(&seen(1), &source(1), "").unwrap();
            assert_eq!(begin(&mut known, at, xid, time).err(), expected, "{at} {xid} {time}");
            assert_eq!(known.is_awaiting(), expected.is_some());
        }
        let mut known = known(&seen(1), &source(1), "").unwrap();
        assert_eq!((known.reach(Lsn::new(100)), known.reach(Lsn::new(101))), (Ok(()), Err(missing)));
        assert_eq!(known.begin(Lsn::new(100), Identity::Message(1)), Err(other));
    }

    #[test]
    fn the_states_own_transaction_need_not_come_again_from_elsewhere() {
        let other = Source { stream: "p".to_owned(), ..source(1) };
        let behind = Begins { at: Lsn::new(101), ..BEGINS };
        let of = |now: &Source, history, begins| {
            Known::new(&seen(1), now, &Timelines::parse(history), begins).unwrap()
        };
        for mut known in [
            of(&source(1), "", behind),
            of(&other, "", BEGINS),
            // A standby that never had it was promoted.
            of(&source(2), "1\t0/64\twhy", BEGINS),
        ] {
            assert_eq!(begin(&mut known, 101, 9, 70), Ok(()), "{known:?}");
        }
        // An older outboxd said nothing of times.
        let mut known = known(&state(1, Some(140)), &source(1), "").unwrap();
        assert_eq!((begin(&mut known, 90, 1, 1_000), known.has(at(90, 0))), (Ok(()), Ok(true)));
        assert_eq!(begin(&mut known, 100, 7, 1_000), Ok(()));
        assert_eq!(known.latest(), BEGINS.now);
    }

    #[test]
    fn a_state_of_another_history_is_refused() {
        let other_system = Source { system_id: SystemId("2".to_owned()), ..source(1) };
        let other_database = Source { database: "e".to_owned(), ..source(1) };
        let cases = [
            (state(1, None), other_system, "system identifier 1, and this one has 2"),
            (state(1, None), other_database, "database \"d\""),
            (state(4, None), source(3), "timeline 4"),
            (state(2, None), source(3), "timeline 2"),
        ];
        for (state, now, expected) in cases {
            let said = known(&state, &now, "1\t0/60\twhy").unwrap_err().to_string();
            assert!(said.contains(expected), "{said}");
        }
        let far = State { place: Place::inside(at(20_000, 0), false), ..state(1, None) };
        assert!(matches!(known(&far, &source(1), ""), Err(Mismatch::Ahead { .. })));
    }
}
