//! Mutations that verify must find: right rows and records, one mutation of the records, and an answer that
//! must not be yes.

use proptest::prelude::*;

use super::compare::tests::row as name;
use super::entry::RowName;
use super::latest::FieldDigest;
use super::retention::TopicState;
use super::*;

const PARTITIONS: i32 = 2;
const TOPIC: TopicNumber = TopicNumber(0);

/// Mutation of the records of a topic, with numbers that choose which ones.
#[derive(Debug, Clone, Copy)]
enum Mutation {
    Remove(usize),
    Alter(usize),
    Repeat(usize, usize),
    Swap(usize),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        any::<usize>().prop_map(Mutation::Remove),
        any::<usize>().prop_map(Mutation::Alter),
        any::<(usize, usize)>().prop_map(|(which, at)| Mutation::Repeat(which, at)),
        any::<usize>().prop_map(Mutation::Swap),
    ]
}

/// A record as it lies in its topic: a row's key and number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Record {
    key: u64,
    number: u64,
    altered: bool,
}

/// Returns the partition of a key.
fn partition(key: u64) -> i32 {
    i32::try_from(key).unwrap() % PARTITIONS
}

impl Mutation {
    /// Returns the mutated records; none when it cannot be applied.
    fn of(self, records: &[Record]) -> Option<Vec<Record>> {
        let mut mutated = records.to_vec();
        match self {
            Self::Remove(which) => {
                mutated.remove(which.checked_rem(records.len())?);
            }
            Self::Alter(which) => mutated[which.checked_rem(records.len())?].altered = true,
            Self::Repeat(which, at) => {
                let which = which.checked_rem(records.len())?;
                mutated.insert(which + 1 + at % (records.len() - which), records[which]);
            }
            Self::Swap(which) => {
                let first = which.checked_rem(records.len())?;
                let key = records[first].key;
                let second = (first + 1..records.len()).find(|at| records[*at].key == key)?;
                mutated.swap(first, second);
            }
        }
        Some(mutated)
    }
}

/// Generates the keys of an outbox's rows, in the order of their commits.
fn keys() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0u64..4, 1..12)
}

fn written(keys: &[u64]) -> Vec<Record> {
    (0..).zip(keys).map(|(number, key)| Record { key: *key, number, altered: false }).collect()
}

/// Source of the order of an outbox's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownBy {
    Positions,
    Rows,
}

/// Returns the answer of `verify` about an outbox.
fn of_outbox(rows: &[Record], records: &[Record], known_by: KnownBy, compacted: bool) -> Tally {
    let contents = |record: &Record| Contents {
        key: record.key,
        value: record.number + if record.altered { 1_000 } else { 0 },
        headers: 0,
    };
    let expected = rows.iter().map(|row| Expected {
        identity: Identity(row.number),
        contents: contents(row),
        topic: TOPIC,
        spot: Spot::Decided(partition(row.key)),
        timestamp_ms: None,
        written_ms: None,
        order: Some(i64::try_from(row.number).unwrap()),
        refusal: None,
        row: name(u16::try_from(row.number).unwrap()),
    });
    let mut positions = Positions::default();
    let found = (0..).zip(records).map(|(offset, record)| {
        let position = format!("1/{:016X}/L{:016X}/00000000", record.number, record.number);
        let is_behind = positions.is_behind(TOPIC, partition(record.key), position.as_bytes());
        Found {
            identity: Identity(record.number),
            contents: contents(record),
            topic: TOPIC,
            partition: partition(record.key),
            offset,
            timestamp_ms: None,
            behind: known_by == KnownBy::Positions && is_behind,
            without_value: false,
        }
    });
    let state = TopicState { partitions: 2, compacted, ..TopicState::default() };
    let topics = Topics::new(vec![state]);
    let mut comparison =
        Comparison { topics, dead_letters: None, slot_has_passed: true, tally: Tally::default() };
    let Compared { orders, .. } = comparison.compare(expected.collect(), found.collect());
    comparison.compare_order(orders, OrderCheck { slack: 0, tells_late: known_by == KnownBy::Rows });
    comparison.tally
}

/// Generates changes of the rows of a table: a key, and whether its row is deleted.
fn changes() -> impl Strategy<Value = Vec<(u64, bool)>> {
    prop::collection::vec((0u64..4, prop::bool::weighted(0.3)), 1..12)
}

/// Returns the answer of `verify` about a table; `gone` marks the changes that are deletes.
fn of_table(rows: &[Record], records: &[Record], gone: impl Fn(u64) -> bool) -> Tally {
    let fields = |record: &Record| {
        let value = format!("{}{}", record.number, if record.altered { " altered" } else { "" });
        Fields(vec![FieldDigest::new("v", &value)])
    };
    let expected = rows.iter().map(|row| Row {
        identity: Identity(row.key),
        topic: TOPIC,
        keyed: true,
        spot: Spot::Decided(partition(row.key)),
        fields: fields(row),
        refusal: None,
        row: RowName { ..name(u16::try_from(row.number).unwrap()) },
    });
    let changes = (0..).zip(records).map(|(offset, record)| Change {
        identity: Identity(record.key),
        topic: TOPIC,
        partition: partition(record.key),
        offset,
        keyed: true,
        visibility: Visibility::Seen,
        lsn: Some(record.number),
        event: Some(record.number),
        state: if gone(record.number) { State::Gone } else { State::There(fields(record)) },
    });
    let mut latest = Latest {
        topics: Topics::new(vec![TopicState { partitions: 2, ..TopicState::default() }]),
        slot_has_passed: true,
        tells_deletes: true,
        tells_updates: true,
        truncated: Truncated::default(),
        placeholders: Vec::new(),
        unset: Vec::new(),
        tally: Tally::default(),
    };
    latest.compare(expected.collect(), changes.collect());
    latest.tally
}

proptest! {
    #[test]
    fn nothing_is_missed_of_an_outbox(keys in keys(), mutation in mutation(), by_rows: bool, compacted: bool) {
        let rows = written(&keys);
        let known_by = if by_rows { KnownBy::Rows } else { KnownBy::Positions };
        prop_assert!(of_outbox(&rows, &rows, known_by, compacted).is_clean());
        let Some(mutated) = mutation.of(&rows) else { return Ok(()) };
        let tally = of_outbox(&rows, &mutated, known_by, compacted);
        // Compaction takes away what has a later record of its key.
        let is_excused = compacted && matches!(mutation, Mutation::Remove(which) if {
            let removed = rows[which % rows.len()];
            rows.iter().any(|row| row.key == removed.key && row.number > removed.number)
        });
        prop_assert_eq!(tally.is_clean(), is_excused, "{:?}", tally);
    }

    #[test]
    fn nothing_is_missed_of_the_last_records_of_a_table(changes in changes(), mutation in mutation()) {
        let keys: Vec<u64> = changes.iter().map(|(key, _)| *key).collect();
        let (records, gone) = (written(&keys), |number: u64| changes[usize::try_from(number).unwrap()].1);
        let is_last = |record: &&Record| !records.iter().any(|other| other.key == record.key && other.number > record.number);
        let rows: Vec<_> = records.iter().filter(is_last).filter(|last| !gone(last.number)).copied().collect();
        prop_assert!(of_table(&rows, &records, gone).is_clean());
        let Some(mutated) = mutation.of(&records) else { return Ok(()) };
        let tally = of_table(&rows, &mutated, gone);
        // Only the last record of a key shows its row, and a delete has no other contents.
        let is_visible = match mutation {
            Mutation::Remove(which) => {
                let removed = &records[which % records.len()];
                let before = records.iter().rfind(|other| other.key == removed.key && other.number < removed.number);
                let goes_on = before.is_some_and(|before| !gone(before.number));
                is_last(&removed) && (!gone(removed.number) || goes_on)
            }
            Mutation::Alter(which) => {
                let altered = &records[which % records.len()];
                is_last(&altered) && !gone(altered.number)
            }
            Mutation::Repeat(..) | Mutation::Swap(_) => true,
        };
        prop_assert_eq!(tally.is_clean(), !is_visible, "{:?}", tally);
    }
}
