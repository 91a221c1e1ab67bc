//! Tests of the comparison with last records.

use super::super::entry::FieldDigest;
use super::*;
use crate::verification::entry::Spot;
use crate::verification::retention::{PartitionStart, TopicState};

fn fields(text: &str) -> Fields {
    let mut fields: Vec<_> = text
        .split_whitespace()
        .filter_map(|field| field.split_once('='))
        .map(|(name, value)| FieldDigest::new(name, value))
        .collect();
    fields.sort_unstable();
    Fields(fields)
}

fn row(key: u64, text: &str) -> Row {
    Row {
        identity: Identity(key),
        topic: TopicNumber(0),
        keyed: true,
        spot: Spot::Decided(0),
        fields: fields(text),
        refusal: None,
        row: RowName { table: 0, lies_in: 0, place: (0, 0), id: None },
    }
}

/// Makes a record; `-` is a delete, `?` cannot be read.
fn change(key: u64, lsn: u64, text: &str) -> Change {
    Change {
        identity: Identity(key),
        topic: TopicNumber(0),
        partition: 0,
        offset: 0,
        keyed: true,
        visibility: Visibility::Seen,
        lsn: Some(lsn),
        event: Some(lsn),
        state: match text {
            "-" => State::Gone,
            "?" => State::Unreadable,
            text => State::There(fields(text)),
        },
    }
}

fn latest() -> Latest {
    Latest {
        topics: Topics::new(vec![TopicState { partitions: 2, ..TopicState::default() }]),
        slot_has_passed: true,
        tells_deletes: true,
        tells_updates: true,
        truncated: Truncated::new(),
        placeholders: vec![fields("b=toast")],
        unset: vec![fields("a=null b=x")],
        tally: Tally::default(),
    }
}

fn judged_by(mut latest: Latest, rows: Vec<Row>, changes: Vec<Change>) -> (String, Tally) {
    // Offsets in the order in which they are given.
    let changes = (0..).zip(changes).map(|(offset, change)| Change { offset, ..change }).collect();
    let findings = latest.compare(rows, changes);
    let words: Vec<_> = findings
        .iter()
        .map(|finding| {
            let places: Vec<_> = finding.places.iter().map(|place| place.offset).collect();
            format!("{} {places:?}", finding.problem.name())
        })
        .collect();
    (words.join(", "), latest.tally)
}

fn judged(rows: Vec<Row>, changes: Vec<Change>) -> (String, Tally) {
    judged_by(latest(), rows, changes)
}

#[test]
fn the_last_record_of_a_key_is_its_row() {
    let cases = [
        ("", vec![(1, "a=1")]),
        ("", vec![(1, "a=0"), (2, "-"), (3, "a=1")]),
        ("changed [1]", vec![(1, "a=1"), (2, "a=2")]),
        ("changed [0]", vec![(1, "?")]),
        ("deleted_in_topic [1]", vec![(1, "a=1"), (2, "-")]),
        ("missing []", vec![]),
        ("", vec![(1, "a=0"), (2, "a=1"), (3, "a=1")]),
        ("out_of_order [1]", vec![(2, "a=0"), (1, "a=1")]),
        ("out_of_order [2]", vec![(1, "a=1"), (3, "a=2"), (2, "a=1")]),
        // What is sent again is not out of order.
        ("repeated [2, 3]", vec![(1, "a=0"), (2, "a=1"), (1, "a=0"), (2, "a=1")]),
    ];
    for (expected, records) in cases {
        let records = records.into_iter().map(|(lsn, text)| change(1, lsn, text)).collect();
        let (found, tally) = judged(vec![row(1, "a=1")], records);
        assert_eq!(found, expected);
        assert_eq!(tally.is_clean(), expected.is_empty());
    }
}

#[test]
fn the_last_record_of_a_deleted_row_is_a_delete() {
    let judge = |latest, change| judged_by(latest, vec![], vec![change]).0;
    assert_eq!(judge(latest(), change(1, 5, "-")), "");
    assert_eq!(judge(latest(), change(1, 5, "a=1")), "not_deleted [0]");
    let silent = Latest { tells_deletes: false, ..latest() };
    assert_eq!(judge(silent, change(1, 5, "a=1")), "");
    let behind = Latest { slot_has_passed: false, ..latest() };
    assert_eq!(judge(behind, change(1, 5, "a=1")), "");
    let truncated = |at| Latest { truncated: [(TopicNumber(0), at)].into(), ..latest() };
    assert_eq!(judge(truncated(6), change(1, 5, "a=1")), "");
    assert_eq!(judge(truncated(5), change(1, 5, "a=1")), "not_deleted [0]");
    let later = Change { visibility: Visibility::Unknown, ..change(1, 5, "a=1") };
    assert_eq!(judge(latest(), later), "");
    let without_key = Change { keyed: false, lsn: None, ..change(1, 5, "a=1") };
    assert_eq!(judge(latest(), without_key), "");
}

#[test]
fn what_came_later_is_not_compared() {
    let with = |visibility, text| Change { visibility, ..change(1, 9, text) };
    let first = change(1, 1, "a=1");
    let (found, tally) = judged(vec![row(1, "a=1")], vec![first.clone(), with(Visibility::Unseen, "a=2")]);
    assert_eq!((found.as_str(), tally.sent), ("", 1));
    let (found, tally) = judged(vec![row(1, "a=1")], vec![with(Visibility::Unseen, "a=2")]);
    assert_eq!((found.as_str(), tally.moved_on), ("", 1));
    let (found, tally) = judged(vec![row(1, "a=2")], vec![first.clone(), with(Visibility::Unknown, "a=2")]);
    assert_eq!((found.as_str(), tally.sent), ("", 1));
    let (found, _) = judged(vec![row(1, "a=3")], vec![first, with(Visibility::Unknown, "a=2")]);
    assert_eq!(found, "changed [0]");
}

#[test]
fn what_a_record_could_not_have_is_counted() {
    let cases = [
        ("a=1 b=x", "a=1 b=toast", "", (0, 1)),
        ("a=1 b=x", "a=2 b=toast", "changed [0]", (0, 0)),
        ("a=toast b=x", "a=1 b=x", "changed [0]", (0, 0)),
        ("a=1 b=x", "a=1", "", (1, 0)),
        // An update of a column that was added later.
        ("a=1 b=y", "a=1", "changed [0]", (0, 0)),
        // The former value of a column is not known.
        ("a=1 c=2", "a=1", "changed [0]", (0, 0)),
        ("a=1", "a=1 c=2", "", (1, 0)),
        ("a=1 b=x", "a=2", "changed [0]", (0, 0)),
    ];
    for (of_row, of_record, expected, (altered, unavailable)) in cases {
        let (found, tally) = judged(vec![row(1, of_row)], vec![change(1, 1, of_record)]);
        assert_eq!((found.as_str(), tally.altered, tally.unavailable), (expected, altered, unavailable));
    }
}

#[test]
fn where_updates_are_not_sent_values_are_not_compared_and_the_rest_is() {
    let judge = |rows, changes| {
        let (found, tally) = judged_by(Latest { tells_updates: false, ..latest() }, rows, changes);
        (found, tally.sent, tally.not_compared)
    };
    let of_key = |changes| judge(vec![row(1, "a=1")], changes);
    let told = |found: &str, sent, not_compared| (found.to_owned(), sent, not_compared);
    assert_eq!(of_key(vec![change(1, 1, "a=1")]), told("", 1, 0));
    assert_eq!(of_key(vec![change(1, 1, "a=2")]), told("", 1, 1));
    assert_eq!(of_key(vec![]), told("missing []", 0, 0));
    assert_eq!(of_key(vec![change(1, 1, "a=1"), change(1, 2, "-")]), told("deleted_in_topic [1]", 0, 0));
    assert_eq!(of_key(vec![change(1, 1, "?")]), told("changed [0]", 0, 0));
    assert_eq!(judge(vec![], vec![change(1, 1, "a=1")]), told("not_deleted [0]", 0, 0));
    let without_key = || Row { keyed: false, ..row(1, "a=1") };
    assert_eq!(judge(vec![without_key()], vec![]), told("", 1, 1));
    let refused = Row { refusal: Some("no".to_owned()), ..without_key() };
    assert_eq!(judge(vec![refused], vec![]), told("cannot_be_sent []", 0, 0));
    let two = || vec![row(1, "a=1"), row(1, "a=2")];
    assert_eq!(judge(two(), vec![change(1, 1, "a=2")]), told("", 2, 1));
    assert_eq!(judge(two(), vec![]), told("missing [], missing []", 0, 0));
}

#[test]
fn rows_that_no_key_distinguishes_must_be_among_the_records() {
    let two = || vec![row(1, "a=1"), row(1, "a=2")];
    let records = vec![change(1, 1, "a=2"), change(1, 2, "a=1"), change(1, 3, "a=3")];
    assert_eq!(judged(two(), records).0, "");
    assert_eq!(judged(two(), vec![change(1, 1, "a=2")]).0, "missing []");
    let same = || vec![row(1, "a=1"), row(1, "a=1")];
    assert_eq!(judged(same(), vec![change(1, 1, "a=1")]).0, "missing [], missing []");
    let twice = vec![change(1, 1, "a=1"), change(1, 2, "a=1")];
    assert_eq!(judged(same(), twice.clone()).0, "");
    let without_key = Row { keyed: false, ..row(1, "a=1") };
    assert_eq!(judged(vec![without_key], twice).0, "");
}

#[test]
fn a_row_without_a_record_is_lost_or_not_sent_yet() {
    let behind = Latest { slot_has_passed: false, ..latest() };
    assert_eq!(judged_by(behind, vec![row(1, "a=1")], vec![]).0, "missing_or_unsent []");
    let shortened = [(0, PartitionStart { oldest_ms: Some(1) })].into();
    let state = TopicState { partitions: 2, shortened, ..TopicState::default() };
    let mut expiring = Latest { topics: Topics::new(vec![state]), ..latest() };
    let findings = expiring.compare(vec![row(1, "a=1")], vec![]);
    assert_eq!(findings[0].problem, Problem::Missing { perhaps: Some(Deletion::Expired) });
    let refused = Row { refusal: Some("no".to_owned()), keyed: false, ..row(1, "") };
    assert_eq!(judged(vec![refused], vec![]).0, "cannot_be_sent []");
}

/// A topic was given more partitions, and a snapshot has sent the row again, or an update behind it.
#[test]
fn a_row_of_a_snapshot_may_be_the_last_record_of_its_key_wherever_it_is() {
    let old = || change(1, 5, "a=0");
    let read = |text| Change { partition: 1, lsn: None, ..change(1, 6, text) };
    assert_eq!(judged(vec![row(1, "a=1")], vec![old(), read("a=1")]).0, "");
    assert_eq!(judged(vec![row(1, "a=0")], vec![old(), read("a=1")]).0, "");
    assert_eq!(judged(vec![row(1, "a=2")], vec![old(), read("a=1")]).0, "changed [0]");
    assert_eq!(judged(vec![], vec![change(1, 5, "-"), read("a=1")]).0, "");
    assert_eq!(judged(vec![], vec![old(), read("a=1")]).0, "not_deleted [0]");
}

#[test]
fn the_wal_says_which_partition_has_the_last_record() {
    let elsewhere = Change { partition: 1, ..change(1, 2, "a=2") };
    let (found, _) = judged(vec![row(1, "a=2")], vec![change(1, 1, "a=1"), elsewhere.clone()]);
    assert_eq!(found, "");
    let (found, _) = judged(vec![row(1, "a=2")], vec![change(1, 3, "a=1"), elsewhere]);
    assert_eq!(found, "changed [0]");
}
