//! Signals that ask for incremental snapshots meanwhile, and whether what was read is right.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

use crate::seen::Seen;
use crate::shape::Shape;
use crate::support::outbox::Outbox;
use crate::support::session::{Address, Session};
use crate::support::wait::let_pass;
use crate::truth::Event;

/// Violations of one kind that are shown.
const SHOWN_MAX: usize = 8;
/// Between two signals.
const PAUSE_MS: std::ops::Range<u64> = 200..800;

const SIGNAL: &str = r#"INSERT INTO signals VALUES (gen_random_uuid()::text, 'execute-snapshot',
    '{"data-collections": ["public.order", "public.payment", "public.refund"]}')"#;

/// A row, by its topic and its key: its id and the digest of its payload.
pub(crate) type Rows = BTreeMap<(String, String), (String, String)>;

/// Requests snapshots of all tables repeatedly, one after the other.
pub(crate) fn ask(address: &Address, seed: u64, over: &AtomicBool) {
    let session = Session::new(address.clone());
    let mut rng = Rng::with_seed(seed);
    let mut next = Instant::now();
    while !over.load(Ordering::Relaxed) {
        let_pass(Duration::from_millis(50));
        if Instant::now() < next {
            continue;
        }
        next = Instant::now() + Duration::from_millis(rng.u64(PAUSE_MS));
        if session.try_execute(SIGNAL).is_err() {
            session.disconnect();
        }
    }
}

/// Returns whether a record is a row that was read.
pub(crate) fn is_read(seen: &Seen) -> bool {
    seen.id.starts_with("r:")
}

/// Returns the content of the tables after the last write.
pub(crate) fn rows(db: &Outbox, shape: Shape) -> Rows {
    let mut all = Rows::new();
    for (kind, topic) in shape.tables(db) {
        let rows = db.query(&format!(r#"SELECT key, id::text, md5(payload) FROM "{kind}""#), &[]);
        all.extend(rows.iter().map(|row| ((topic.clone(), row.get(0)), (row.get(1), row.get(2)))));
    }
    all
}

/// Checks L10: the last record of each key is its row, reads included. A read is never older than an earlier record,
/// nor newer than a change that is first seen after it.
pub(crate) fn judge(truth: &[Event], seen: &[Seen], rows: &Rows) -> Vec<String> {
    let numbers: HashMap<&str, usize> =
        truth.iter().enumerate().map(|(number, event)| (event.id.as_str(), number)).collect();
    let (mut keys, mut violations) = (BTreeMap::<_, Key>::new(), Vec::new());
    for seen in seen {
        let key = keys.entry((seen.place.0.clone(), seen.key.clone())).or_default();
        violations.extend(key.take(seen, truth, &numbers).map(|problem| format!("L10 {problem}: {seen:?}")));
    }
    if !seen.iter().any(is_read) {
        violations.push("L10 no row was read".to_owned());
    }
    let last: Rows = keys.into_iter().filter_map(|(key, found)| Some((key, found.state?))).collect();
    let differing = last.iter().filter(|(key, row)| rows.get(key) != Some(row));
    violations.extend(
        differing.map(|(key, row)| format!("L10 {key:?} ends with {row:?}, and not {:?}", rows.get(key))),
    );
    let lacking = rows.keys().filter(|key| !last.contains_key(key));
    violations.extend(lacking.map(|key| format!("L10 {key:?} is in its table, and has no last record")));
    violations.truncate(SHOWN_MAX);
    violations
}

/// State of a key so far.
#[derive(Default)]
struct Key {
    /// The row's id and payload according to the last record.
    state: Option<(String, String)>,
    /// The number of the latest event that records describe.
    furthest: Option<usize>,
    /// The number of the latest event that a read describes.
    read: Option<usize>,
    changes: HashSet<usize>,
}

impl Key {
    fn take(&mut self, seen: &Seen, truth: &[Event], numbers: &HashMap<&str, usize>) -> Option<&'static str> {
        let (op, id) = seen.id.split_once(':')?;
        self.state = (op != "d").then(|| (id.to_owned(), seen.md5.clone()));
        if !is_read(seen) {
            // A record that no event explains is a phantom, and reported as one.
            let number = *numbers.get(seen.id.as_str())?;
            self.furthest = self.furthest.max(Some(number));
            let is_first = self.changes.insert(number);
            return (is_first && self.read >= Some(number))
                .then_some("a change first comes behind a read that has it");
        }
        let made = ["c", "u"].map(|op| numbers.get(format!("{op}:{id}").as_str()).copied());
        let Some(number) = made.into_iter().flatten().max() else {
            return Some("a row was read that never was");
        };
        self.read = self.read.max(Some(number));
        if truth[number].md5 != seen.md5 {
            return Some("a row was read with another payload");
        }
        let is_older = self.furthest > Some(number);
        self.furthest = self.furthest.max(Some(number));
        is_older.then_some("a read is older than what came before it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, n: i64) -> Event {
        let (kind, key) = ("order".to_owned(), "k".to_owned());
        Event { id: id.to_owned(), kind, key, n, md5: "p".to_owned(), stamp: 0, commit_lsn: 0 }
    }

    fn seen(id: &str) -> Seen {
        Seen {
            id: id.to_owned(),
            place: ("t".to_owned(), 0),
            offset: 0,
            key: "k".to_owned(),
            md5: "p".to_owned(),
            letter: false,
            header_id: String::new(),
            timestamp_ms: 0,
        }
    }

    /// Returns the violations when the row was made as `1`, became `2` and then `3`, and these records exist.
    fn judged(records: &[&str], rows: &Rows) -> Vec<String> {
        let truth = [event("c:1", 1), event("u:2", 2), event("u:3", 3)];
        let seen: Vec<Seen> = records.iter().map(|id| seen(id)).collect();
        let violations = judge(&truth, &seen, rows).into_iter();
        violations.map(|told| told.split([':', '(']).next().unwrap().trim().to_owned()).collect()
    }

    #[test]
    fn a_wrong_read_is_found() {
        let row =
            |id: &str| Rows::from([(("t".to_owned(), "k".to_owned()), (id.to_owned(), "p".to_owned()))]);
        let older = "L10 a read is older than what came before it";
        let (late, ends) = ("L10 a change first comes behind a read that has it", "L10");
        let cases: [(&[&str], Rows, &[&str]); 9] = [
            (&["c:1", "u:2", "r:2", "u:3"], row("3"), &[]),
            (&["r:1", "u:2", "u:3", "r:3"], row("3"), &[]),
            (&["c:1", "u:2", "r:1", "u:3"], row("3"), &[older]),
            (&["c:1", "u:2", "u:3", "r:2"], row("3"), &[older, ends]),
            (&["c:1", "r:2", "u:2", "u:3"], row("3"), &[late]),
            (&["c:1", "u:2", "r:2", "u:2", "u:3"], row("3"), &[]),
            (&["c:1", "r:9", "u:2", "u:3"], row("3"), &["L10 a row was read that never was"]),
            (&["c:1", "u:2", "u:3", "r:3"], Rows::new(), &[ends]),
            (&["c:1", "u:2", "u:3"], row("3"), &["L10 no row was read"]),
        ];
        for (records, rows, expected) in cases {
            assert_eq!(judged(records, &rows), expected, "{records:?}");
        }
    }
}
