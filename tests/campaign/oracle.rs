//! The oracle. Read this file first: it decides whether a run has lost, invented, altered, reordered or repeated anything.
//!
//! It knows three things and nothing else: the committed changes, from a journal that the writers fill in the same transactions; the
//! records that a consumer of committed records sees; and the rows that the tables hold at the end. It shares no code with the
//! product or with other judges.

use std::collections::{BTreeMap, BTreeSet};

use crate::facts::{Allowances, Change, Effect, Need, RowId, Seen, Tables};

#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Each begins with its rule: lost, invented, altered, reordered, repeated, both, moved, stale.
    pub(crate) violations: BTreeSet<String>,
    pub(crate) changes: usize,
    pub(crate) records: usize,
    pub(crate) repeats: usize,
    /// Rows whose last record differs from the table, allowed or not: `outboxd verify` must name them.
    pub(crate) stale: BTreeSet<RowId>,
    /// Events without a record or a dead letter, allowed or not, as (key, number).
    pub(crate) unsent: BTreeSet<(RowId, i64)>,
}

pub(crate) fn judge(changes: &[Change], seen: &[Seen], tables: &Tables, allowed: &Allowances) -> Verdict {
    let mut verdict = Verdict { changes: changes.len(), records: seen.len(), ..Verdict::default() };
    let mut histories: BTreeMap<&RowId, History> = BTreeMap::new();
    for change in changes {
        histories.entry(&change.row).or_default().changes.insert(change.n, change);
    }
    for record in seen {
        match histories.get_mut(&record.row) {
            Some(history) => history.read(record, allowed, &mut verdict),
            None => verdict.violate("invented", &record.row, record.n, &at(record)),
        }
    }
    for (row, history) in &histories {
        history.finish(row, tables.get(*row).copied(), allowed, &mut verdict);
    }
    for row in tables.keys().filter(|row| !histories.contains_key(row)) {
        verdict.violate("journal", row, None, "a row that the journal does not have");
    }
    verdict
}

/// The changes of one row, and its records so far.
#[derive(Default)]
struct History<'h> {
    changes: BTreeMap<i64, &'h Change>,
    /// The changes with a record, and whether only a snapshot has sent them.
    sent: BTreeMap<i64, bool>,
    dead_letters: BTreeSet<i64>,
    /// Those of them with a record besides.
    replayed: BTreeSet<i64>,
    deletes: usize,
    /// The sent changes, true for those that a poller has sent.
    senders: BTreeMap<i64, bool>,
    /// In each partition the greatest number so far.
    greatest: BTreeMap<(String, i32), i64>,
    /// In each partition the last record.
    lasts: BTreeMap<(String, i32), &'h Seen>,
    /// All records, for the report.
    records: Vec<&'h Seen>,
}

impl<'h> History<'h> {
    fn read(&mut self, record: &'h Seen, allowed: &Allowances, verdict: &mut Verdict) {
        self.records.push(record);
        let Some(n) = self.number(record) else {
            return verdict.violate("invented", &record.row, record.n, &at(record));
        };
        let change = self.changes[&n];
        if record.digest.as_ref().is_some_and(|digest| *digest != change.digest) {
            verdict.violate("altered", &record.row, record.n, &at(record));
        }
        if self.senders.insert(n, record.by_poller).is_some_and(|before| before != record.by_poller) {
            verdict.violate("both", &record.row, record.n, &at(record));
        }
        self.deletes += usize::from(record.effect == Effect::Gone);
        let repeated = match record.n {
            Some(_) => {
                let before = self.sent.get(&n).copied();
                self.sent.insert(n, record.read && before.unwrap_or(true));
                before.is_some_and(|by_snapshot| !by_snapshot && !record.read)
            }
            None => {
                self.sent.insert(n, false);
                self.deletes > self.deletes_committed()
            }
        };
        // A dead letter that was sent again has one record more, which comes late.
        let is_replay = allowed.replayed
            && !record.dead_letter
            && self.dead_letters.contains(&n)
            && self.replayed.insert(n);
        let repeated = repeated && !is_replay;
        if repeated {
            verdict.repeats += 1;
            if !allowed.repeats && !allowed.copied.contains(&record.row.0) {
                verdict.violate("repeated", &record.row, record.n, &at(record));
            }
        }
        if record.dead_letter {
            self.dead_letters.insert(n);
            return;
        }
        self.order(record, repeated || is_replay, allowed, verdict);
        self.lasts.insert(record.partition.clone(), record);
    }

    /// Returns the last record. Partitions come one after another, so of two of them the numbers show the order; a delete has the number
    /// of the row that it ends.
    fn last(&self) -> Option<&'h Seen> {
        self.lasts.values().copied().max_by_key(|record| (record.n, record.effect == Effect::Gone))
    }

    /// Returns the change to which a record belongs; a delete without a number may be any delete.
    fn number(&self, record: &Seen) -> Option<i64> {
        let such = |change: &&Change| change.effect == record.effect;
        match record.n {
            // A delete has the row as it was: the number of the change before.
            Some(n) if record.effect == Effect::Gone => {
                self.changes.range(n + 1..).map(|(_, change)| *change).find(such).map(|change| change.n)
            }
            Some(n) => self.changes.get(&n).copied().filter(|change| such(change)).map(|change| change.n),
            None => self.changes.values().copied().rfind(such).map(|change| change.n),
        }
    }

    fn order(&mut self, record: &Seen, repeated: bool, allowed: &Allowances, verdict: &mut Verdict) {
        let Some(n) = record.n else { return };
        let is_moved = !self.greatest.is_empty() && !self.greatest.contains_key(&record.partition);
        if is_moved && !allowed.moved.contains(&record.row.0) {
            verdict.violate("moved", &record.row, record.n, &at(record));
        }
        // A blocking snapshot reads newer states than the stream has sent; an older state that comes last is stale.
        let n = if record.read { 0 } else { n };
        let greatest = self.greatest.entry(record.partition.clone()).or_insert(n);
        // Of a copy that became the table: whether it is captured may differ when it is read again.
        let may_be_late = allowed.reread || allowed.late_records || allowed.copied.contains(&record.row.0);
        if n < *greatest && !record.read && !repeated && !may_be_late {
            verdict.violate("reordered", &record.row, record.n, &at(record));
        }
        *greatest = n.max(*greatest);
    }

    /// Returns number, mark, partition and offset of each record.
    fn all(&self) -> String {
        let brief = |record: &&Seen| {
            let mark = match record {
                Seen { dead_letter: true, .. } => " dead",
                Seen { read: true, .. } => " read",
                Seen { effect: Effect::Gone, .. } => " gone",
                _ => "",
            };
            format!("{:?}{mark} in {} at {}", record.n, record.partition.1, record.offset)
        };
        self.records.iter().map(brief).collect::<Vec<_>>().join(", ")
    }

    fn deletes_committed(&self) -> usize {
        self.changes.values().filter(|change| change.effect == Effect::Gone).count()
    }

    fn finish(&self, row: &RowId, in_table: Option<i64>, allowed: &Allowances, verdict: &mut Verdict) {
        let is_sent = |n: &i64| self.sent.contains_key(n);
        for change in
            self.changes.values().filter(|change| change.effect == Effect::Event && !is_sent(&change.n))
        {
            verdict.unsent.insert((row.clone(), change.n));
        }
        let needed = self
            .changes
            .values()
            .filter(|change| change.need == Need::Record && change.effect != Effect::Gone);
        for change in needed.filter(|change| !is_sent(&change.n)) {
            verdict.violate("lost", row, Some(change.n), "no record of it");
        }
        if self.changes.values().any(|change| change.effect == Effect::Event) {
            return;
        }
        let last = self.last();
        let in_kafka = last.filter(|last| last.effect == Effect::Written).and_then(|last| last.n);
        if in_kafka != in_table {
            verdict.stale.insert(row.clone());
        }
        let needed = self
            .changes
            .values()
            .rfind(|change| change.need > Need::Nothing && !self.dead_letters.contains(&change.n));
        let Some(needed) = needed else { return };
        let is_current = match last {
            None => false,
            Some(Seen { effect: Effect::Gone, .. }) => {
                self.changes.values().any(|change| change.effect == Effect::Gone && change.n >= needed.n)
            }
            Some(last) => last.n >= Some(needed.n),
        };
        if !is_current && !allowed.late_records {
            let last = last.map_or_else(|| "nothing".to_owned(), at);
            verdict.violate(
                "stale",
                row,
                Some(needed.n),
                &format!("the last record is {last}, the table has {in_table:?}; all: {}", self.all()),
            );
        }
    }
}

fn at(record: &Seen) -> String {
    let (topic, partition) = &record.partition;
    format!(
        "{:?} {:?} in {topic} {partition} at {} with key {}",
        record.effect, record.n, record.offset, record.key
    )
}

impl Verdict {
    fn violate(&mut self, rule: &str, row: &RowId, n: Option<i64>, detail: &str) {
        self.violations.insert(format!("{rule}: {} {} change {n:?}: {detail}", row.0, row.1));
    }
}
