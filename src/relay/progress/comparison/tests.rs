//! Tests of the comparison of slot and position.

use super::*;
use crate::postgres::{Peer, SlotName, SlotRecovery, TableFilter};
use crate::relay::capture::captured::{CapturedTable, Suspicion, SuspicionCause};
use crate::wal::{SystemId, TimelineId};

const NOW: i64 = 1_700_000_000_000_000;

fn origin(timeline: u32) -> Origin {
    Origin { system_id: SystemId("1".to_owned()), timeline: TimelineId(timeline) }
}

/// Compares in a process that has acknowledged everything up to 500 on timeline 2.
fn compare<R>(shared: bool, accept: Option<u64>, ask: impl FnOnce(Comparison<'_>) -> R) -> R {
    let known = Known { origin: origin(2), to: Lsn::new(500), shared };
    let options = SlotOptions {
        name: SlotName::default(),
        drop_on_stop: false,
        failover: false,
        recovery: SlotRecovery::Fail,
        retry: None,
        stream_params: Vec::new(),
        xmin_interval: None,
        peer: Peer::default(),
    };
    ask(Comparison {
        slot: &options,
        mode: SnapshotMode::NoData,
        database: "shop",
        tables: &TableFilter::default(),
        accept: accept.map(Lsn::new),
        trusts_slot: false,
        known: Some(&known),
        snapshot_after: None,
        has_changes: true,
        has_whole_snapshots: true,
        saw_slot: false,
        captured: &CapturedTables::default(),
    })
}

fn position(lsn: u64, timeline: u32) -> Position {
    Position::at(Lsn::new(lsn), &origin(timeline), "shop", Oid(5), "debezium")
}

fn found(slot: u64, origin: &Origin) -> FoundSlot<'_> {
    FoundSlot { origin, database: Oid(5), at: Some((Lsn::new(slot), Lsn::new(100_000))), stored: None }
}

fn now() -> Now {
    Now { instant: std::time::Instant::now(), unix_us: NOW }
}

/// Returns the refusal of a slot, if any.
fn refusal(shared: bool, slot: u64, timeline: u32, stored: Option<(u64, u32)>) -> Option<String> {
    let origin_now = origin(timeline);
    let stored = stored.map(|(lsn, timeline)| position(lsn, timeline));
    let outcome = compare(shared, None, |comparison| {
        let needs_position = comparison.needs_position(Some(Lsn::new(slot)), &origin_now);
        needs_position.then(|| comparison.with_position(stored.as_ref(), found(slot, &origin_now), now()))
    });
    outcome?.err().map(|error| error.to_string())
}

#[test]
fn a_stop_of_another_outboxd_that_had_the_slot_unnoticed_is_not_forgotten() {
    let (at, problem) = (origin(2), "publication \"p\" is gone");
    let stopped = position(500, 2).with_stop(problem.to_owned(), "make it".to_owned());
    let catch_up = |position: &Position, accept| {
        compare(false, accept, |comparison| comparison.catch_up(position, found(500, &at)).map(drop))
    };
    assert!(catch_up(&position(500, 2), None).is_ok());
    let said = catch_up(&stopped, None).unwrap_err().to_string();
    assert!(said.contains(problem), "{said}");
    assert!(catch_up(&stopped, Some(500)).is_ok(), "the operator continues without the rows");
}

/// Without that the progress of incremental snapshots would be dropped, and they would not be resumed.
#[test]
fn a_slot_is_continued_from_when_its_stop_is_accepted() {
    let at = origin(2);
    let stopped = position(500, 2).with_stop("p".to_owned(), "make it".to_owned());
    let beginning = |found: FoundSlot<'_>| {
        compare(true, Some(500), |comparison| comparison.with_position(Some(&stopped), found, now()).unwrap())
    };
    assert_eq!(beginning(found(500, &at)), Beginning::GoesOn);
    assert_eq!(beginning(FoundSlot { at: None, ..found(500, &at) }), Beginning::Accepted);
}

#[test]
fn a_suspicion_lasts_until_its_value_is_accepted() {
    let (at, suspicion) = (origin(2), Suspicion::new(SuspicionCause::Rewritten, Lsn::new(300)));
    let mut stored = position(500, 2);
    let table = CapturedTable::new(Oid(7), Oid(7), "public", "outbox");
    stored.tables = vec![CapturedTable { suspicion: Some(suspicion), ..table }];
    let open = |accept| {
        compare(true, accept, |comparison| {
            comparison.with_position(Some(&stored), found(500, &at), now()).unwrap();
            comparison.captured.list_kept().iter().filter_map(|table| table.suspicion).collect::<Vec<_>>()
        })
    };
    assert_eq!(open(None), [suspicion]);
    assert_eq!(open(Some(500)), [suspicion]);
    assert_eq!(open(Some(300)), []);
}

#[test]
fn a_slot_beyond_what_this_process_knows_is_refused_unless_another_outboxd_has_moved_it() {
    let cases = [
        // Another has had the slot as far as we noticed; where it stands; the timeline; the position and its timeline.
        (false, 500, 2, None, None),
        (false, 600, 2, None, Some("from 0/1F4 to 0/258")),
        (false, 600, 2, Some((550, 2)), Some("from 0/1F4 to 0/258")),
        (false, 600, 2, Some((600, 2)), None),
        // Perhaps our own, of before the failover.
        (false, 600, 2, Some((700, 1)), Some("from 0/1F4 to 0/258")),
        (false, 600, 3, None, Some("from 0/1F4 to 0/258")),
        (false, 600, 3, Some((600, 3)), None),
        (false, 400, 3, None, None),
        (true, 600, 2, None, None),
        (true, 600, 2, Some((550, 2)), Some("up to 0/226, and it stands at 0/258")),
        (true, 600, 2, Some((600, 2)), None),
    ];
    for (shared, slot, timeline, position, expected) in cases {
        let said = refusal(shared, slot, timeline, position);
        let is_as_expected = match (&said, expected) {
            (Some(said), Some(expected)) => said.contains(expected),
            (said, expected) => said.is_none() && expected.is_none(),
        };
        assert!(is_as_expected, "{slot} {timeline} {position:?}: {said:?}, expected {expected:?}");
    }
}

#[test]
fn the_snapshot_of_every_start_waits_for_what_the_slot_has_and_is_sent_once() {
    let (always, changes) = (SnapshotMode::Always, true);
    // Mode, whether rows are change events, what the process has read before, and what is confirmed before the snapshot; whether one is
    // sent, and whether it waits for more than 20.
    let cases = [
        (always, changes, false, None, (true, true)),
        (always, changes, true, Some(30), (true, true)),
        (always, changes, true, Some(20), (true, false)),
        (always, changes, true, None, (false, true)),
        (always, !changes, false, None, (true, false)),
        (SnapshotMode::Initial, changes, false, None, (false, false)),
    ];
    for (mode, has_changes, is_later, behind, expected) in cases {
        let decided = compare(false, None, |comparison| {
            let known = comparison.known.filter(|_| is_later);
            let snapshot_after = behind.map(Lsn::new);
            let comparison = Comparison { mode, has_changes, known, snapshot_after, ..comparison };
            (comparison.takes_again(None), comparison.catches_up_first(Lsn::new(20)))
        });
        assert_eq!(decided, expected, "{mode:?} {has_changes} {is_later} {behind:?}");
    }
}
