//! Tests of a start after a Kafka transaction.

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

fn at(commit_lsn: u64, lsn: u64) -> EventPosition {
    EventPosition::new(Lsn::new(commit_lsn), Lsn::new(lsn), 0)
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
        (state(1, None), other.clone(), &[at(99, 900), at(100, 0), at(100, 5)], &[at(100, 6), at(101, 0)]),
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

/// States that count events do not name their LSNs.
#[test]
fn the_place_moves_with_the_events_that_a_state_counts() {
    let counted = |event: EventPosition, more| {
        let place = Place { counted: Some(2), ..Place::inside(event, more) };
        State { place, ..state(1, None) }
    };
    let events = [at(100, 10), at(100, 30), at(100, 31), at(100, 50)];
    let begun = EventPosition::begin(Lsn::new(100));
    let mut whole = known(&counted(begun, false), &source(1), "").unwrap();
    let mut torn = known(&counted(begun.next_part(), true), &source(1), "").unwrap();
    let other = Source { stream: "p".to_owned(), ..source(1) };
    let mut restreamed = known(&counted(begun, false), &other, "").unwrap();
    for (number, event) in events.into_iter().enumerate() {
        for known in [&mut whole, &mut torn, &mut restreamed] {
            known.count_event(at(99, 9));
            known.count_event(event);
            known.count_event(event);
        }
        assert_eq!(whole.has(event.end_of_event()), Ok(number <= 2), "{event:?}");
        assert_eq!(torn.has(event.next_part()), Ok(number <= 2), "{event:?}");
        assert_eq!(torn.has(event.end_of_event()), Ok(number < 2), "{event:?}");
        assert_eq!(restreamed.has(event), Ok(false), "{event:?}");
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

/// Makes a state at 100, in transaction 7, which committed at 50; something before it committed at 60.
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
    // States of an older outboxd have no times.
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
