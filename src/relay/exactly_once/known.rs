use super::state::{Place, Source, State};
use crate::transaction::EventPosition;
use crate::wal::{Lsn, SystemId, TimelineId};

/// Where a page of WAL begins, the last record's end may be told before or behind the page's header.
const WAL_PAGE_BYTES: u64 = 8192;

/// What of the stream is in Kafka already, as the state says that was read at the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Known {
    place: Option<Place>,
    /// Transactions that commit from here on are of another history than the state.
    until: Option<Lsn>,
    /// The rows of the transaction at the place are numbered otherwise now: it is sent as a whole.
    renumbered: bool,
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
    #[error("it is of the cluster with system identifier {state}, and this one has {server}")]
    System {
        /// The state's.
        state: SystemId,
        /// The server's.
        server: SystemId,
    },
    /// Another database.
    #[error("it is of database {state:?}, and this is {server:?}")]
    Database {
        /// The state's.
        state: String,
        /// The server's.
        server: String,
    },
    /// A timeline that is none of the server's.
    #[error(
        "it is of timeline {state}, which is not among those that this server's timeline {server} comes from"
    )]
    Timeline {
        /// The state's.
        state: TimelineId,
        /// The server's.
        server: TimelineId,
    },
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
    /// What a state says to a stream from this source, whose WAL ends there.
    pub(crate) fn new(
        state: &State,
        source: &Source,
        timelines: &Timelines,
        wal_end: Lsn,
    ) -> Result<Self, Mismatch> {
        let State { source: then, place, .. } = state;
        if then.system_id != source.system_id {
            let (state, server) = (then.system_id.clone(), source.system_id.clone());
            return Err(Mismatch::System { state, server });
        }
        if then.database != source.database {
            let (state, server) = (then.database.clone(), source.database.clone());
            return Err(Mismatch::Database { state, server });
        }
        let renumbered = then.stream != source.stream;
        if then.timeline == source.timeline {
            let state = place.furthest();
            if wal_end.get().saturating_add(WAL_PAGE_BYTES) < state.get() {
                return Err(Mismatch::Ahead { state, wal_end });
            }
            return Ok(Self { place: Some(*place), until: None, renumbered });
        }
        let Some(left) = timelines.left(then.timeline) else {
            return Err(Mismatch::Timeline { state: then.timeline, server: source.timeline });
        };
        Ok(Self { place: Some(*place), until: Some(left), renumbered })
    }

    /// Whether an event of the stream is in Kafka.
    pub(crate) fn has(&self, event: EventPosition) -> bool {
        let Some(place) = &self.place else { return false };
        if self.until.is_some_and(|until| event.commit_lsn >= until) {
            return false;
        }
        match event.commit_lsn.cmp(&place.event.commit_lsn) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal if place.end_lsn.is_some() => true,
            std::cmp::Ordering::Equal => !self.renumbered && event.ordinal <= place.event.ordinal,
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

    fn source(timeline: u32) -> Source {
        Source {
            system_id: SystemId("1".to_owned()),
            timeline: TimelineId(timeline),
            database: "d".to_owned(),
            slot: "s".to_owned(),
            stream: "o".to_owned(),
        }
    }

    fn at(commit_lsn: u64, ordinal: u64) -> EventPosition {
        EventPosition { commit_lsn: Lsn::new(commit_lsn), ordinal }
    }

    fn state(timeline: u32, end_lsn: Option<u64>) -> State {
        let place = Place { event: at(100, 5), end_lsn: end_lsn.map(Lsn::new) };
        State { source: source(timeline), place, topics: Vec::new() }
    }

    fn known(state: &State, now: &Source, history: &str) -> Result<Known, Mismatch> {
        Known::new(state, now, &Timelines::parse(history), Lsn::new(1_000))
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
            has.iter().for_each(|event| assert!(known.has(*event), "{state:?} {event:?}"));
            has_not.iter().for_each(|event| assert!(!known.has(*event), "{state:?} {event:?}"));
        }
        assert!(!Known::default().has(at(0, 0)));
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
            assert!(known.has(at(95, 0)));
            assert_eq!((known.has(at(96, 0)), known.has(at(99, 0))), (at_96, at_99), "{timeline}");
            assert_eq!(known.has(at(100, 0)), timeline == 3, "{timeline}");
            assert_eq!(known.phantoms(), phantoms, "{timeline}");
        }
    }

    #[test]
    fn a_later_timeline_may_begin_before_an_earlier_one() {
        let known = known(&state(1, Some(140)), &source(3), "1\t0/60\twhy\n2\t0/50\twhy").unwrap();
        assert!(known.has(at(0x4F, 0)) && !known.has(at(0x50, 0)));
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
        let far = State { place: Place { event: at(20_000, 0), end_lsn: None }, ..state(1, None) };
        assert!(matches!(known(&far, &source(1), ""), Err(Mismatch::Ahead { .. })));
    }
}
