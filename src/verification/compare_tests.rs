//! Tests of the comparison of rows with records.

use proptest::prelude::*;

use super::super::entry::RowName;
use super::super::retention::TopicState;
use super::*;

const DEAD: TopicNumber = TopicNumber(9);

pub(in super::super) fn row(number: u16) -> RowName {
    RowName { table: 0, lies_in: 1, place: (0, number), id: None }
}

fn contents(value: &str) -> Contents {
    Contents::new(
        Some(b"k"),
        Some(value.as_bytes()),
        std::iter::empty(),
        crate::verification::TraceHeaders::Compared,
    )
}

pub(in super::super) fn expected(id: u64, topic: u32, value: &str) -> Expected {
    Expected {
        identity: Identity(id),
        contents: contents(value),
        topic: TopicNumber(topic),
        spot: Spot::Any,
        timestamp_ms: None,
        written_ms: None,
        order: None,
        refusal: None,
        row: row(0),
    }
}

fn found(id: u64, topic: u32, value: &str, offset: i64) -> Found {
    Found {
        identity: Identity(id),
        contents: contents(value),
        topic: TopicNumber(topic),
        partition: 0,
        offset,
        timestamp_ms: Some(0),
        behind: false,
        without_value: false,
    }
}

fn comparison() -> Comparison {
    Comparison {
        topics: Topics::new(vec![TopicState { partitions: 1, ..TopicState::default() }]),
        dead_letters: Some(DEAD),
        slot_has_passed: true,
        tally: Tally::default(),
    }
}

/// Returns the problems, in words, and the tally.
fn judged(rows: Vec<Expected>, records: Vec<Found>) -> (Vec<String>, Tally) {
    let mut comparison = comparison();
    let Compared { findings, .. } = comparison.compare(rows, records);
    let words = findings.iter().map(|finding| match &finding.problem {
        Problem::Changed { parts } => format!("changed {parts} @{}", finding.places[0].offset),
        Problem::Repeated { times } => format!("repeated {times}"),
        problem => problem.name().to_owned(),
    });
    (words.collect(), comparison.tally)
}

/// Name, rows, records, and problems.
type Case = (&'static str, Vec<Expected>, Vec<Found>, &'static [&'static str]);

#[test]
fn what_is_wrong_is_named() {
    let unroutable = || Expected { refusal: Some("no topic".to_owned()), ..expected(1, 0, "raw") };
    let cut = Found { without_value: true, ..found(1, DEAD.0, "", 0) };
    let timed = Expected { timestamp_ms: Some(5), ..expected(1, 0, "v") };
    let placed = Expected { spot: Spot::Decided(3), ..expected(1, 0, "v") };
    let appended = Found { timestamp_ms: None, ..found(1, 0, "v", 0) };
    let behind = Found { behind: true, ..found(1, 0, "v", 4) };
    let e = || expected(1, 0, "v");
    let f = |offset| found(1, 0, "v", offset);
    let cases: Vec<Case> = vec![
        ("sent", vec![e()], vec![f(0)], &[]),
        ("not sent", vec![e()], vec![], &["missing"]),
        ("another id is there", vec![e()], vec![found(2, 0, "v", 0)], &["missing"]),
        ("twice", vec![e()], vec![f(0), f(1)], &["repeated 2"]),
        ("other bytes", vec![e()], vec![found(1, 0, "w", 7)], &["changed value @7"]),
        ("other bytes besides", vec![e()], vec![f(0), found(1, 0, "w", 7)], &["changed value @7"]),
        ("in another topic", vec![e()], vec![found(1, 1, "v", 7)], &["in_another_topic"]),
        ("another event of another topic", vec![e()], vec![found(1, 1, "w", 7)], &["missing"]),
        ("a copy in another topic", vec![e()], vec![f(0), found(1, 1, "v", 7)], &[]),
        ("a dead letter", vec![e()], vec![found(1, DEAD.0, "v", 0)], &[]),
        ("a dead letter without its value", vec![e()], vec![cut], &[]),
        ("another service's dead letter", vec![e()], vec![found(1, DEAD.0, "x", 0)], &["missing"]),
        ("a dead letter that was sent", vec![e()], vec![f(1), found(1, DEAD.0, "v", 0)], &[]),
        ("cannot be sent", vec![unroutable()], vec![], &["cannot_be_sent"]),
        ("its dead letter", vec![unroutable()], vec![found(1, DEAD.0, "raw", 0)], &[]),
        ("not its dead letter", vec![unroutable()], vec![found(1, DEAD.0, "x", 0)], &["cannot_be_sent"]),
        ("another timestamp", vec![timed.clone()], vec![f(0)], &["changed timestamp @0"]),
        ("the broker's timestamp", vec![timed], vec![appended], &[]),
        ("another partition", vec![placed], vec![f(0)], &["changed partition @0"]),
        ("behind its successor", vec![e()], vec![behind], &["out_of_order"]),
        ("repeated in a replay", vec![e()], vec![f(0), behind], &["repeated 2"]),
        (
            "late and repeated",
            vec![e()],
            vec![behind, Found { offset: 9, ..behind }],
            &["repeated 2", "out_of_order"],
        ),
        ("the id twice in the table", vec![e(), e()], vec![f(0), f(1)], &[]),
        ("the id twice, sent once", vec![e(), e()], vec![f(0)], &["missing"]),
        ("the id twice, sent thrice", vec![e(), e()], vec![f(0), f(1), f(2)], &["repeated 2"]),
        ("two rows with one id", vec![e(), expected(1, 0, "w")], vec![f(0), found(1, 0, "w", 1)], &[]),
        (
            "two tables with the same ids",
            vec![e(), expected(1, 1, "w")],
            vec![f(0), found(1, 1, "w", 0)],
            &[],
        ),
        ("a record without a row", vec![], vec![f(0)], &[]),
    ];
    for (what, rows, records, problems) in cases {
        let (told, tally) = judged(rows, records);
        assert_eq!(told, problems, "{what}");
        assert_eq!(tally.is_clean(), problems.is_empty(), "{what}: {tally:?}");
    }
}

#[test]
fn what_may_not_have_been_sent_yet_is_not_called_missing() {
    let mut comparison = Comparison { slot_has_passed: false, ..comparison() };
    let Compared { findings, .. } = comparison.compare(vec![expected(1, 0, "v")], vec![]);
    assert_eq!(findings[0].problem, Problem::Unsent);
    assert!(!comparison.tally.is_clean());
}

/// In a compacted topic, only a later record of its key excuses a row.
#[test]
fn a_row_that_compaction_may_have_taken_is_judged_by_its_key() {
    let compacted = || {
        let state = TopicState { partitions: 1, compacted: true, ..TopicState::default() };
        Comparison { topics: Topics::new(vec![state]), ..comparison() }
    };
    let of = |id, order| Expected { order: Some(order), contents: contents("of k"), ..expected(id, 0, "") };
    let judge = |sent: u64| {
        let (mut comparison, record) =
            (compacted(), Found { contents: contents("of k"), ..found(sent, 0, "", 0) });
        let Compared { findings, orders, .. } = comparison.compare(vec![of(1, 1), of(2, 2)], vec![record]);
        assert_eq!(findings, []);
        let check = OrderCheck { slack: 0, tells_late: true };
        let problems: Vec<_> =
            comparison.compare_order(orders, check).into_iter().map(|finding| finding.problem).collect();
        (problems, comparison.tally.compacted, comparison.tally.is_clean())
    };
    assert_eq!(judge(2), (vec![], 1, true));
    assert_eq!(judge(1), (vec![Problem::Missing { perhaps: None }], 0, false));
    let Compared { findings, .. } = compacted().compare(vec![expected(1, 0, "v")], vec![]);
    assert_eq!(findings[0].problem, Problem::Missing { perhaps: Some(Deletion::Compacted) });
}

#[test]
fn each_row_is_ordered_by_its_first_record() {
    let rows = vec![Expected { order: Some(7), ..expected(1, 0, "v") }];
    let records =
        [(0, 5), (0, 2), (1, 9)].map(|(partition, offset)| Found { partition, ..found(1, 0, "v", offset) });
    let Compared { orders, .. } = comparison().compare(rows, records.to_vec());
    let places: Vec<_> = orders.iter().map(|entry| (entry.record, entry.order)).collect();
    assert_eq!(places, [(Some((0, 2)), 7), (Some((1, 9)), 7)]);
}

/// Compares every row in turn with all the records that are left. Which of several rows with one id a record
/// with other contents belongs to is not identified: it is the one whose contents come first.
fn naive(rows: &[Expected], records: &[Found]) -> Tally {
    let mut rows: Vec<&Expected> = rows.iter().collect();
    rows.sort_by_key(|row| (row.identity, row.topic, row.contents));
    let mut left: Vec<Found> = records.to_vec();
    let mut tally = Tally {
        rows: rows.len().try_into().unwrap(),
        records: records.len().try_into().unwrap(),
        ..Tally::default()
    };
    let mut take =
        |wanted: &dyn Fn(&Found) -> bool| left.iter().position(wanted).map(|at| left.remove(at)).is_some();
    let of = |row: &Expected, record: &Found| row.identity == record.identity && record.topic != DEAD;
    let same = |row: &Expected, record: &Found| {
        of(row, record) && row.topic == record.topic && row.contents == record.contents
    };
    let (sent, mut unsent): (Vec<&Expected>, Vec<_>) =
        rows.iter().copied().partition(|row| take(&|record| same(row, record)));
    tally.sent = sent.len().try_into().unwrap();
    let mut repeated: Vec<_> = Vec::new();
    for row in &sent {
        while take(&|record| same(row, record)) {
            repeated.push((row.identity, row.topic, row.contents));
        }
    }
    repeated.dedup();
    repeated.sort_unstable();
    repeated.dedup();
    tally.repeated = repeated.len().try_into().unwrap();
    unsent.retain(|row| {
        let changed = take(&|record| of(row, record) && row.topic == record.topic);
        tally.changed += u64::from(changed);
        !changed
    });
    for row in &rows {
        while take(&|record| of(row, record) && row.topic == record.topic) {
            tally.changed += 1;
        }
    }
    unsent.retain(|row| {
        let elsewhere = take(&|record| of(row, record) && row.contents == record.contents);
        tally.other_topic += u64::from(elsewhere);
        !elsewhere
    });
    for row in unsent {
        let letter = take(&|record| {
            let is_same = row.contents == record.contents;
            row.identity == record.identity && record.topic == DEAD && is_same
        });
        *(if letter { &mut tally.dead_letters } else { &mut tally.missing }) += 1;
    }
    let known = |record: &&Found| rows.iter().any(|row| row.identity == record.identity);
    let letters = left.iter().filter(|record| record.topic == DEAD && known(record)).count();
    tally.without_row = (left.len() - letters).try_into().unwrap();
    tally
}

proptest! {
    #[test]
    fn the_tally_is_that_of_the_naive_model(
        rows in prop::collection::vec((0u64..4, 0u32..2, "[vw]"), 0..12),
        records in prop::collection::vec((0u64..4, prop_oneof![0u32..3, Just(DEAD.0)], "[vwx]"), 0..16),
    ) {
        let rows: Vec<_> = rows.iter().map(|(id, topic, value)| expected(*id, *topic, value)).collect();
        let records: Vec<_> =
            (0..).zip(&records).map(|(n, (id, topic, value))| found(*id, *topic, value, n)).collect();
        let mut comparison = comparison();
        let Compared { findings, .. } = comparison.compare(rows.clone(), records.clone());
        prop_assert_eq!(&comparison.tally, &naive(&rows, &records));
        let Tally { missing, changed, other_topic, repeated, .. } = comparison.tally;
        prop_assert_eq!(findings.len() as u64, missing + changed + other_topic + repeated);
    }

    #[test]
    fn it_does_not_matter_how_identities_are_split(
        rows in prop::collection::vec((0u64..8, 0u32..2, "[vw]"), 0..20),
        records in prop::collection::vec((0u64..8, 0u32..3, "[vwx]"), 0..20),
        at in 0u64..8,
    ) {
        let rows: Vec<_> = rows.iter().map(|(id, topic, value)| expected(*id, *topic, value)).collect();
        let records: Vec<_> =
            (0..).zip(&records).map(|(n, (id, topic, value))| found(*id, *topic, value, n)).collect();
        let (mut whole, mut parts) = (comparison(), comparison());
        whole.compare(rows.clone(), records.clone());
        let (low_rows, high_rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| row.identity.0 < at);
        let (low, high): (Vec<_>, Vec<_>) = records.into_iter().partition(|record| record.identity.0 < at);
        parts.compare(low_rows, low);
        parts.compare(high_rows, high);
        prop_assert_eq!(whole.tally, parts.tally);
    }
}
