//! Comparison of rows with records.

use std::collections::HashMap;

use super::digest::{Contents, Identity, Part, Parts};
use super::entry::{Expected, Found, OrderEntry, RowPlace, Spot, TopicNumber};
use super::finding::{Deletion, Finding, PLACES_MAX, Place, Problem};
use super::order::{OrderCheck, Orders};
use super::retention::{Missed, Topics};
use super::tally::Tally;

/// Compares rows with records, a part of all identities at a time.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// Topics.
    pub topics: Topics,
    /// The dead-letter topic. A dead letter is a row's when it has the row's id, key and value: ids alone may
    /// be another service's.
    pub dead_letters: Option<TopicNumber>,
    /// True if the relay has confirmed everything that the rows were read with.
    pub slot_has_passed: bool,
    /// Counts by result.
    pub tally: Tally,
}

/// Result of a comparison. It grows with the part that is compared, not with the whole.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Findings.
    pub findings: Vec<Finding>,
    /// Entries for checking the order of keys.
    pub orders: Vec<OrderEntry>,
    /// The rows whose record or dead letter is there, with their contents.
    pub sent: Vec<RowPlace>,
}

impl Comparison {
    /// Compares all rows and records of some identities: those that are not given here have none of these.
    pub(crate) fn compare(&mut self, mut rows: Vec<Expected>, mut records: Vec<Found>) -> Compared {
        let mut findings = Compared::default();
        rows.sort_unstable_by_key(|row| {
            (row.identity, row.topic, row.contents, row.timestamp_ms, row.row.place)
        });
        records.sort_unstable_by_key(|record| {
            let Found { identity, topic, contents, timestamp_ms, partition, offset, .. } = *record;
            (identity, topic, contents, timestamp_ms, partition, offset)
        });
        both(
            &rows,
            &records,
            |row| row.identity,
            |record| record.identity,
            |rows, records| {
                self.compare_identity(rows, records, &mut findings);
            },
        );
        findings
    }

    fn compare_identity(&mut self, rows: &[Expected], records: &[Found], findings: &mut Compared) {
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        self.tally.rows = self.tally.rows.saturating_add(count(rows.len()));
        self.tally.records = self.tally.records.saturating_add(count(records.len()));
        if rows.is_empty() {
            self.tally.without_row = self.tally.without_row.saturating_add(count(records.len()));
            return;
        }
        let (letters, records): (Vec<&Found>, Vec<&Found>) =
            records.iter().partition(|record| Some(record.topic) == self.dead_letters);
        let (sendable, unsendable): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.refusal.is_none());
        let mut left = Left::default();
        let same = |row: &&Expected| (row.topic, row.contents);
        both(
            &sendable,
            &records,
            same,
            |record| (record.topic, record.contents),
            |rows, records| {
                self.pair(rows, records, &mut left, findings);
            },
        );
        let mut letters = letters;
        for row in left.settle(self, &sendable, findings).into_iter().chain(unsendable) {
            if let Some(index) = letters.iter().position(|letter| is_letter_of(row, letter)) {
                letters.swap_remove(index);
                findings.sent.push(row.row.at());
                self.tally.dead_letters = self.tally.dead_letters.saturating_add(1);
            } else {
                self.report_missing(row, findings);
            }
        }
    }

    /// Pairs rows and records of the same topic and contents.
    fn pair<'e>(
        &mut self,
        rows: &[&'e Expected],
        records: &[&'e Found],
        left: &mut Left<'e>,
        findings: &mut Compared,
    ) {
        let paired = rows.len().min(records.len());
        left.rows.extend(rows.iter().skip(paired));
        if rows.is_empty() {
            left.records.extend(records);
        }
        for (index, row) in rows.iter().take(paired).enumerate() {
            // Surplus records are assigned to the last row: nothing identifies theirs.
            let count = if index.saturating_add(1) == rows.len() { records.len() } else { 1 };
            let own: Vec<_> = records.iter().skip(index).take(count).copied().collect();
            self.report_paired(row, &own, findings);
        }
    }

    /// Reports a row, and its records, of which there is at least one.
    fn report_paired(&mut self, row: &Expected, records: &[&Found], findings: &mut Compared) {
        findings.sent.push(row.row.at());
        let Some(parts) = records.iter().map(|record| misplaced(row, record)).find(|parts| !parts.is_empty())
        else {
            self.tally.sent = self.tally.sent.saturating_add(1);
            if let times @ 2.. = records.len() {
                let times = u64::try_from(times).unwrap_or(u64::MAX);
                self.report(row, Problem::Repeated { times }, records, findings);
            }
            if records.iter().all(|record| record.behind) {
                self.report(row, Problem::OutOfOrder, records, findings);
            }
            findings.orders.extend(order_entries(row, records));
            return;
        };
        self.report(row, Problem::Changed { parts }, records, findings);
    }

    fn report_missing(&mut self, row: &Expected, findings: &mut Compared) {
        if let Some(reason) = row.refusal.clone() {
            return self.report(row, Problem::CannotBeSent { reason }, &[], findings);
        }
        let perhaps = match self.topics.missed(row) {
            Missed::Expired => return self.tally.expired = self.tally.expired.saturating_add(1),
            Missed::PerhapsCompacted => match row.order {
                Some(order) => return findings.orders.push(order_entry(row, None, order)),
                None => Some(Deletion::Compacted),
            },
            Missed::PerhapsExpired => Some(Deletion::Expired),
            Missed::Lost => None,
        };
        let problem = self.absent(perhaps);
        self.report(row, problem, &[], findings);
    }

    /// Compares the rows of some keys, whose order is known, with each other.
    pub(crate) fn compare_order(&mut self, entries: Vec<OrderEntry>, check: OrderCheck) -> Vec<Finding> {
        let Orders { late, absent, compacted } = Orders::of(entries, check);
        self.tally.compacted = self.tally.compacted.saturating_add(compacted);
        let absent = absent.into_iter().map(|OrderEntry { topic, row, .. }| Finding {
            problem: self.absent(None),
            row: Some(row),
            topic: Some(topic),
            places: Vec::new(),
        });
        let findings: Vec<_> = absent.chain(late).collect();
        findings.iter().for_each(|finding| self.tally.count(&finding.problem));
        findings
    }

    /// Returns the problem of a row without a record, that nothing excuses.
    const fn absent(&self, perhaps: Option<Deletion>) -> Problem {
        if self.slot_has_passed { Problem::Missing { perhaps } } else { Problem::Unsent }
    }

    fn report(&mut self, row: &Expected, problem: Problem, records: &[&Found], findings: &mut Compared) {
        self.tally.count(&problem);
        let mut places: Vec<_> = records.iter().take(PLACES_MAX).map(|record| Place::of(record)).collect();
        places.sort_unstable();
        let topic = row.refusal.is_none().then_some(row.topic);
        findings.findings.push(Finding { problem, row: Some(row.row.clone()), topic, places });
    }
}

/// Rows and records of one identity that have no partner with the same contents in the same topic.
#[derive(Debug, Default)]
struct Left<'e> {
    rows: Vec<&'e Expected>,
    records: Vec<&'e Found>,
}

impl<'e> Left<'e> {
    /// Finds partners that differ. Returns the rows that have none.
    fn settle(
        self,
        comparison: &mut Comparison,
        all: &[&'e Expected],
        findings: &mut Compared,
    ) -> Vec<&'e Expected> {
        let (mut rows, mut foreign) = (Vec::new(), Vec::new());
        both(
            &self.rows,
            &self.records,
            |row| row.topic,
            |record| record.topic,
            |some, records| {
                for (row, record) in some.iter().zip(records) {
                    comparison.report_changed(row, record, findings);
                }
                rows.extend(some.iter().skip(records.len()).copied());
                for record in records.iter().skip(some.len()) {
                    // It has the id of a row whose own record is there as well.
                    match all.iter().find(|row| row.topic == record.topic) {
                        Some(row) => comparison.report_changed(row, record, findings),
                        None => foreign.push(*record),
                    }
                }
            },
        );
        let mut by_contents: HashMap<Contents, Vec<&Found>> = HashMap::new();
        for record in foreign {
            by_contents.entry(record.contents).or_default().push(record);
        }
        rows.retain(|row| {
            let Some(record) = by_contents.get_mut(&row.contents).and_then(Vec::pop) else { return true };
            comparison.report(row, Problem::OtherTopic, &[record], findings);
            false
        });
        let foreign = by_contents.values().map(Vec::len).sum::<usize>();
        let foreign = u64::try_from(foreign).unwrap_or(u64::MAX);
        comparison.tally.without_row = comparison.tally.without_row.saturating_add(foreign);
        rows
    }
}

impl Comparison {
    fn report_changed(&mut self, row: &Expected, record: &Found, findings: &mut Compared) {
        let parts = row.contents.difference(record.contents);
        self.report(row, Problem::Changed { parts }, &[record], findings);
    }
}

/// Returns whether a dead letter is this row's: it has what the row's record would have, or all but the value
/// where that was too large.
const fn is_letter_of(row: &Expected, letter: &Found) -> bool {
    let (wanted, contents) = (row.contents, letter.contents);
    wanted.key == contents.key && (wanted.value == contents.value || letter.without_value)
}

/// Returns the parts of a record that differ from the row's columns, though its contents do not.
fn misplaced(row: &Expected, record: &Found) -> Parts {
    let mut parts = Parts::default();
    let times = row.timestamp_ms.zip(record.timestamp_ms);
    parts.set(Part::Timestamp, times.is_some_and(|(row, record)| row != record));
    parts.set(Part::Partition, matches!(row.spot, Spot::Decided(partition) if partition != record.partition));
    parts
}

/// Returns entries of the first record in each partition.
fn order_entries(row: &Expected, records: &[&Found]) -> Vec<OrderEntry> {
    let Some(order) = row.order else { return Vec::new() };
    let mut first: Vec<Place> = records.iter().map(|record| Place::of(record)).collect();
    first.sort_unstable();
    first.dedup_by_key(|place| place.partition);
    let entry = |place: Place| order_entry(row, Some((place.partition, place.offset)), order);
    first.into_iter().map(entry).collect()
}

fn order_entry(row: &Expected, record: Option<(i32, i64)>, order: i64) -> OrderEntry {
    OrderEntry { key: Identity(row.contents.key), topic: row.topic, record, order, row: row.row.clone() }
}

/// Walks through two sorted lists together: what has the same key in both is given at once.
fn both<'e, A, B, K: Ord>(
    a: &'e [A],
    b: &'e [B],
    key_a: impl Fn(&A) -> K,
    key_b: impl Fn(&B) -> K,
    mut each: impl FnMut(&'e [A], &'e [B]),
) {
    let mut a = a.chunk_by(|one, other| key_a(one) == key_a(other)).peekable();
    let mut b = b.chunk_by(|one, other| key_b(one) == key_b(other)).peekable();
    loop {
        let next_a = a.peek().and_then(|group| group.first()).map(&key_a);
        let next_b = b.peek().and_then(|group| group.first()).map(&key_b);
        let (take_a, take_b) = match (&next_a, &next_b) {
            (None, None) => return,
            (Some(_), None) => (true, false),
            (None, Some(_)) => (false, true),
            (Some(a), Some(b)) => (a <= b, b <= a),
        };
        let group_a = if take_a { a.next() } else { None };
        let group_b = if take_b { b.next() } else { None };
        each(group_a.unwrap_or_default(), group_b.unwrap_or_default());
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
pub(super) mod tests;
