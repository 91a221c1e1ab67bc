//! Comparison of rows with the last records of their keys.

use std::collections::{HashMap, HashSet};

use super::entry::{Change, Fields, Row, State};
use super::visibility::Visibility;
use crate::verification::Identity;
use crate::verification::entry::{RowName, TopicNumber};
use crate::verification::finding::{Deletion, Finding, PLACES_MAX, Place, Problem};
use crate::verification::retention::Topics;
use crate::verification::tally::Tally;

/// Up to where in the WAL the rows of a topic's tables are gone, because a table was truncated.
pub(crate) type Truncated = HashMap<TopicNumber, u64>;

/// Compares rows with the last record of their key, a part of all keys at a time.
#[derive(Debug)]
pub(crate) struct Latest {
    /// Topics.
    pub topics: Topics,
    /// True if the relay has confirmed everything that the rows were read with.
    pub slot_has_passed: bool,
    /// True if there is a record of each row that is gone.
    pub tells_deletes: bool,
    /// True if updates are sent. If not, a row may have other values than the last record of its key.
    pub tells_updates: bool,
    /// The truncates that were sent.
    pub truncated: Truncated,
    /// Placeholders of each table's fields for values that the server did not send.
    pub placeholders: Vec<Fields>,
    /// Fields, for each table, of a row that is older than all columns: what PostgreSQL reads in it for each
    /// of them.
    pub unset: Vec<Fields>,
    /// Counts by result.
    pub tally: Tally,
}

/// Likeness of a record's row and the table's.
#[derive(Debug, PartialEq, Eq)]
enum Likeness {
    Same,
    /// Common fields are equal, except for values that the record could not have.
    Unavailable,
    /// Common fields are equal. The row has fields that the record lacks, with their values from when their
    /// columns were added; or the record has fields that the row lacks.
    Altered,
    Differs(Vec<u32>),
}

impl Latest {
    /// Compares all rows and records of some keys: those that are not given here have none of these. Returns what is wrong.
    pub(crate) fn compare(&mut self, mut rows: Vec<Row>, mut changes: Vec<Change>) -> Vec<Finding> {
        let mut findings = Vec::new();
        rows.sort_unstable_by_key(|row| (row.identity, row.row.lies_in, row.row.place));
        changes.sort_unstable_by_key(|change| (change.identity, change.partition, change.offset));
        let mut of_key: HashMap<Identity, &[Change]> =
            changes.chunk_by(|one, other| one.identity == other.identity).filter_map(keyed).collect();
        for rows in rows.chunk_by(|one, other| one.identity == other.identity) {
            let changes = rows.first().and_then(|row| of_key.remove(&row.identity)).unwrap_or_default();
            self.compare_key(rows, changes, &mut findings);
        }
        let mut rest: Vec<_> = of_key.into_iter().collect();
        rest.sort_unstable_by_key(|(identity, _)| *identity);
        for (_, changes) in rest {
            self.compare_key(&[], changes, &mut findings);
        }
        findings
    }

    fn compare_key(&mut self, rows: &[Row], changes: &[Change], findings: &mut Vec<Finding>) {
        add(&mut self.tally.rows, rows.len());
        add(&mut self.tally.records, changes.len());
        let one = match rows {
            [] => None,
            [row] if row.keyed && row.refusal.is_none() => Some(row),
            _ => None,
        };
        self.check_order(one, changes, findings);
        if one.is_none() && !rows.is_empty() {
            return rows.iter().for_each(|row| self.look_for(row, rows, changes, findings));
        }
        match (one, self.last(one, changes)) {
            (Some(row), Some(change)) => self.compare_last(row, change, changes, findings),
            (Some(row), None) => self.report_missing(row, changes, findings),
            (None, Some(change)) if self.should_be_gone(change) => {
                self.report(Problem::NotDeleted, None, change.topic, &[change], findings);
            }
            (None, _) => {}
        }
    }

    /// Checks that records of a key come in the order of the WAL, each once. What is sent again is not out of
    /// order.
    fn check_order(&mut self, row: Option<&Row>, changes: &[Change], findings: &mut Vec<Finding>) {
        let row = row.map(|row| &row.row);
        for changes in changes.chunk_by(|one, other| one.partition == other.partition) {
            let (mut furthest, mut seen) = (0, HashSet::new());
            let mut again = Vec::new();
            for change in changes {
                if change.event.is_some_and(|event| !seen.insert(event)) {
                    again.push(change);
                    continue;
                }
                let Some(lsn) = change.lsn else { continue };
                if lsn < furthest {
                    self.report(Problem::OutOfOrder, row, change.topic, &[change], findings);
                }
                furthest = furthest.max(lsn);
            }
            if let Some(first) = again.first() {
                let times = u64::try_from(again.len()).unwrap_or(u64::MAX).saturating_add(1);
                self.report(Problem::Repeated { times }, row, first.topic, &again, findings);
            }
        }
    }

    fn compare_last(&mut self, row: &Row, last: &Change, changes: &[Change], findings: &mut Vec<Finding>) {
        let likeness = self.likeness(row, last);
        if likeness.is_none_or(|likeness| matches!(likeness, Likeness::Differs(_)))
            && changes
                .iter()
                .any(|change| change.visibility == Visibility::Unknown && self.is_like(row, change))
        {
            add(&mut self.tally.sent, 1);
            return;
        }
        let problem = match (self.likeness(row, last), &last.state) {
            (Some(Likeness::Differs(_)), _) if !self.tells_updates => return self.count_not_compared(),
            (Some(Likeness::Differs(fields)), _) => Problem::Differs { fields },
            (Some(likeness), _) => return self.count_sent(&likeness),
            (None, State::Gone) => Problem::Gone,
            (None, _) => Problem::Unreadable,
        };
        let problem = if self.slot_has_passed { problem } else { Problem::Unsent };
        self.report(problem, Some(&row.row), row.topic, &[last], findings);
    }

    fn count_not_compared(&mut self) {
        add(&mut self.tally.sent, 1);
        add(&mut self.tally.not_compared, 1);
    }

    fn count_sent(&mut self, likeness: &Likeness) {
        add(&mut self.tally.sent, 1);
        match likeness {
            Likeness::Altered => add(&mut self.tally.altered, 1),
            Likeness::Unavailable => add(&mut self.tally.unavailable, 1),
            Likeness::Same | Likeness::Differs(_) => {}
        }
    }

    /// Returns the last record before the rows were read. A key is in one partition, unless the topic was given more of them:
    /// then the record that is the last in the WAL counts. Rows of snapshots have no place there, so with one of them any of the
    /// records may be the last.
    fn last<'c>(&self, row: Option<&Row>, changes: &'c [Change]) -> Option<&'c Change> {
        let lasts = lasts(changes);
        let is_as_it_should_be = |change: &&&Change| match row {
            Some(row) => self.is_like(row, change),
            None => change.state == State::Gone,
        };
        let any = lasts.iter().find(is_as_it_should_be).copied();
        let is_ordered = lasts.iter().all(|change| change.lsn.is_some());
        any.filter(|_| !is_ordered).or_else(|| lasts.into_iter().max_by_key(|change| change.lsn))
    }

    /// Searches for a row among all records, whichever is the last, because nothing distinguishes rows of a
    /// key, or rows without one.
    fn look_for(&mut self, row: &Row, rows: &[Row], changes: &[Change], findings: &mut Vec<Finding>) {
        let like = changes.iter().filter(|change| self.is_like(row, change)).count();
        let wanted = rows.iter().filter(|other| other.fields == row.fields).count();
        // Without a key, the record of an updated row is not among those that have its values.
        let may_be_older = !self.tells_updates && (!row.keyed || !changes.is_empty());
        if row.refusal.is_none() && like >= wanted {
            add(&mut self.tally.sent, 1);
        } else if row.refusal.is_none() && may_be_older {
            self.count_not_compared();
        } else {
            self.report_missing(row, &[], findings);
        }
    }

    fn report_missing(&mut self, row: &Row, changes: &[Change], findings: &mut Vec<Finding>) {
        // What is left of its records is of a later time.
        if changes.iter().any(|change| change.visibility != Visibility::Seen) {
            return add(&mut self.tally.moved_on, 1);
        }
        let problem = match &row.refusal {
            Some(reason) => Problem::CannotBeSent { reason: reason.clone() },
            None if !self.slot_has_passed => Problem::Unsent,
            None => {
                let may_be = self.topics.may_have_expired(row.topic, row.spot);
                Problem::Missing { perhaps: may_be.then_some(Deletion::Expired) }
            }
        };
        self.report(problem, Some(&row.row), row.topic, &[], findings);
    }

    /// Returns whether the last record of a row that does not exist should be a delete.
    fn should_be_gone(&self, last: &Change) -> bool {
        let truncated = self.truncated.get(&last.topic).copied();
        let is_truncated = last.lsn.is_none() || truncated.is_some_and(|at| last.lsn < Some(at));
        let is_truncated = truncated.is_some() && is_truncated;
        self.tells_deletes
            && last.keyed
            && self.slot_has_passed
            && last.visibility == Visibility::Seen
            && matches!(last.state, State::There(_))
            && !is_truncated
    }

    fn is_like(&self, row: &Row, change: &Change) -> bool {
        !matches!(self.likeness(row, change), None | Some(Likeness::Differs(_)))
    }

    fn likeness(&self, row: &Row, change: &Change) -> Option<Likeness> {
        let State::There(found) = &change.state else { return None };
        let table = usize::try_from(row.row.table).ok();
        let placeholders = table.and_then(|table| self.placeholders.get(table));
        let unset = table.and_then(|table| self.unset.get(table));
        let (mut other, mut unavailable, mut common) = (Vec::new(), false, 0_usize);
        for field in &row.fields.0 {
            let Some(value) = found.get(field.name) else {
                // With another value it was updated, and the update has a record of its own.
                if unset.and_then(|unset| unset.get(field.name)) != Some(field.value) {
                    other.push(field.name);
                }
                continue;
            };
            common = common.saturating_add(1);
            if value == field.value {
                continue;
            }
            match placeholders.and_then(|placeholders| placeholders.get(field.name)) {
                Some(placeholder) if placeholder == value => unavailable = true,
                _ => other.push(field.name),
            }
        }
        let altered = common < row.fields.0.len().max(found.0.len());
        Some(match (other.is_empty(), altered, unavailable) {
            (false, ..) => Likeness::Differs(other),
            (true, true, _) => Likeness::Altered,
            (true, false, true) => Likeness::Unavailable,
            (true, false, false) => Likeness::Same,
        })
    }

    fn report(
        &mut self,
        problem: Problem,
        row: Option<&RowName>,
        topic: TopicNumber,
        changes: &[&Change],
        findings: &mut Vec<Finding>,
    ) {
        self.tally.count(&problem);
        let places = changes.iter().take(PLACES_MAX).map(|change| Place {
            topic: change.topic,
            partition: change.partition,
            offset: change.offset,
        });
        let places = places.collect();
        findings.push(Finding { problem, row: row.cloned(), topic: Some(topic), places });
    }
}

fn keyed(changes: &[Change]) -> Option<(Identity, &[Change])> {
    Some((changes.first()?.identity, changes))
}

/// Returns the last record of each partition before the rows were read.
fn lasts(changes: &[Change]) -> Vec<&Change> {
    let of_partitions = changes.chunk_by(|one, other| one.partition == other.partition);
    let seen = |changes: &'_ &[Change]| changes.iter().any(|change| change.visibility == Visibility::Seen);
    let last = of_partitions.filter(seen).filter_map(|changes| {
        let position = changes.iter().rposition(|change| change.visibility == Visibility::Seen)?;
        let mut change = changes.get(position)?;
        // A delete and the tombstone behind it are one.
        if let Some(before) = position.checked_sub(1).and_then(|at| changes.get(at))
            && change.state == State::Gone
            && change.lsn.is_none()
            && before.state == State::Gone
        {
            change = before;
        }
        Some(change)
    });
    last.collect()
}

fn add(count: &mut u64, more: usize) {
    *count = count.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;
