use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pg_replication::wal::Lsn;

use super::outbox::Outbox;
use super::record::Record;
use super::wait::let_pass;

/// Numbered events over a number of keys: event `n` has key `k{n % key_count}` and payload `{"n": n}`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Backlog {
    pub(crate) key_count: u64,
}

impl Backlog {
    /// The aggregate type of its events.
    pub(crate) const TYPE: &'static str = "backlog";

    /// Commits the events of these numbers, `per_transaction` at a time.
    pub(crate) fn insert(self, db: &Outbox, numbers: Range<u64>, per_transaction: u64) {
        db.execute(&self.inserting(numbers, per_transaction));
    }

    /// Commits events from this number on, ten at a time, until `over` is set or the server ends its
    /// session. Returns the number that is next unless the session ended.
    pub(crate) fn insert_until(self, db: &Outbox, first: u64, over: &AtomicBool) -> u64 {
        let mut next = first;
        while !over.load(Ordering::Relaxed) && db.try_query(&self.inserting(next..next + 50, 10)).is_ok() {
            next += 50;
            // More would only be read again by the tests.
            let_pass(Duration::from_millis(20));
        }
        next
    }

    fn inserting(self, numbers: Range<u64>, per_transaction: u64) -> String {
        let (key_count, Range { start, end }) = (self.key_count, numbers);
        format!(
            "DO $$ BEGIN
               FOR low IN {start}..{end} - 1 BY {per_transaction} LOOP
                 INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
                 SELECT gen_random_uuid(), '{}', 'k' || n % {key_count}, 'Numbered', jsonb_build_object('n', n)
                 FROM generate_series(low, least(low + {per_transaction}, {end}) - 1) AS n;
                 COMMIT;
               END LOOP;
             END $$",
            Self::TYPE
        )
    }

    /// Commits the events of these numbers in one transaction. Returns a position before its commit and after
    /// everything that was committed earlier. The end of the WAL before the insert would not do, since other tests
    /// write to the server as well.
    pub(crate) fn insert_at(self, db: &Outbox, numbers: Range<u64>) -> Lsn {
        let (key_count, Range { start, end }) = (self.key_count, numbers);
        let sql = format!(
            "WITH written AS (
               INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
               SELECT gen_random_uuid(), '{}', 'k' || n % {key_count}, 'Numbered', jsonb_build_object('n', n)
               FROM generate_series({start}, {end} - 1) AS n RETURNING 1)
             SELECT pg_current_wal_insert_lsn()::text FROM (SELECT count(*) FROM written) AS all_of_them",
            Self::TYPE
        );
        db.query(&sql, &[])[0].get::<_, String>(0).parse().unwrap()
    }

    /// Returns the payload of this event, as the stream has it.
    pub(crate) fn payload(n: u64) -> String {
        format!("{{\"n\": {n}}}")
    }

    /// Checks that every event is there, that no key's events overtake each other, and that what comes twice is a replay
    /// from an earlier point on; how many records were repeats.
    #[track_caller]
    pub(crate) fn check(self, records: &[Record], numbers: Range<u64>) -> usize {
        let mut seen: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for record in records {
            seen.entry(record.key()).or_default().push(number(record));
        }
        let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for n in numbers.clone() {
            expected.entry(format!("k{}", n % self.key_count)).or_default().push(n);
        }
        for (key, numbers) in &expected {
            let seen = seen.get(key.as_str()).unwrap_or_else(|| panic!("nothing came for key {key}"));
            check_key(key, seen, numbers);
        }
        assert_eq!(seen.len(), expected.len(), "keys");
        records.len() - usize::try_from(numbers.end - numbers.start).unwrap()
    }
}

/// Asserts that each event is the successor of the one before it, or a repeat.
#[track_caller]
fn check_key(key: &str, seen: &[u64], expected: &[u64]) {
    let place = |n: &u64| expected.binary_search(n).unwrap_or_else(|_| panic!("{key}: a strange {n}"));
    let mut next = 0;
    let mut furthest = 0;
    for n in seen {
        let place = place(n);
        assert!(place <= next, "{key}: {n} has overtaken {}", expected[next]);
        next = place + 1;
        furthest = furthest.max(next);
    }
    assert_eq!(furthest, expected.len(), "{key}: events are missing");
    assert_eq!(next, expected.len(), "{key}: a replay ends before the end");
}

fn number(record: &Record) -> u64 {
    let value: serde_json::Value = serde_json::from_str(record.value()).unwrap();
    value["n"].as_u64().unwrap()
}
