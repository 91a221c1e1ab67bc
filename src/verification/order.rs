//! Order of the rows of a key.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use super::entry::{OrderEntry, TopicNumber};
use super::finding::{Finding, Place, Problem};

/// The furthest position that each partition has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Positions {
    furthest: HashMap<(TopicNumber, i32), Vec<u8>>,
    seen: u64,
}

impl Positions {
    /// Returns whether a record with a later position came before this one in its partition. Positions of
    /// another database system cannot be compared: they begin again.
    pub(crate) fn is_behind(&mut self, topic: TopicNumber, partition: i32, position: &[u8]) -> bool {
        let Some(system) = system_of(position) else { return false };
        self.seen = self.seen.saturating_add(1);
        let furthest = self.furthest.entry((topic, partition)).or_default();
        if system_of(furthest) == Some(system) && position < furthest.as_slice() {
            return true;
        }
        furthest.clear();
        furthest.extend_from_slice(position);
        false
    }

    /// Returns the number of records with a position.
    #[must_use]
    pub(crate) const fn seen(&self) -> u64 {
        self.seen
    }
}

/// Returns the system of a position: `system/LSN/L…/number`, or `system/LSN/number` of an outboxd that
/// counted the events of a transaction. The numbers have a fixed width. A record that is not the first of its
/// event has one more behind them.
fn system_of(position: &[u8]) -> Option<&[u8]> {
    let mut fields = position.split(|byte| *byte == b'/');
    let system = fields.next().filter(|system| !system.is_empty())?;
    let mut fields = fields.peekable();
    let is_commit = is_hexadecimal(fields.next()?, 16..=16);
    let lsn = fields.next_if(|field| field.starts_with(b"L")).and_then(|lsn| lsn.get(1..));
    let is_place = is_commit
        && lsn.is_none_or(|lsn| is_hexadecimal(lsn, 16..=16))
        && is_hexadecimal(fields.next()?, 8..=8);
    let is_part = fields.next().is_none_or(|part| is_hexadecimal(part, 2..=8)) && fields.next().is_none();
    (is_place && is_part).then_some(system)
}

fn is_hexadecimal(field: &[u8], digits: RangeInclusive<usize>) -> bool {
    digits.contains(&field.len()) && field.iter().all(u8::is_ascii_hexdigit)
}

/// Check of the order of a key's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OrderCheck {
    /// Orders that differ by no more than this may be the other way round.
    pub slack: i64,
    /// True if records that come too late are reported. Their positions may have shown them already.
    pub tells_late: bool,
}

/// Result of the order of keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders {
    /// The rows whose record comes behind one of the same key whose order is later by more than the slack.
    pub late: Vec<Finding>,
    /// The rows without a record of whose key no later record is there: compaction has not deleted theirs.
    pub absent: Vec<OrderEntry>,
    /// Rows without a record that compaction may have deleted: a later one of their key is there.
    pub compacted: u64,
}

impl Orders {
    /// Checks all entries that may be of one key, in any order.
    #[must_use]
    pub(crate) fn of(mut entries: Vec<OrderEntry>, check: OrderCheck) -> Self {
        let OrderCheck { slack, tells_late } = check;
        let mut orders = Self::default();
        entries.sort_unstable_by_key(|entry| (entry.key, entry.topic));
        for of_key in entries.chunk_by(|one, other| (one.key, one.topic) == (other.key, other.topic)) {
            let (mut sent, absent): (Vec<_>, Vec<_>) =
                of_key.iter().partition(|entry| entry.record.is_some());
            let newest = sent.iter().map(|entry| entry.order).max();
            for row in absent {
                match newest {
                    Some(newest) if row.order.saturating_add(slack) < newest => {
                        orders.compacted = orders.compacted.saturating_add(1);
                    }
                    _ => orders.absent.push(row.clone()),
                }
            }
            sent.sort_unstable_by_key(|entry| entry.record);
            if tells_late {
                orders.late.extend(late(&sent, slack));
            }
        }
        orders
    }
}

/// Finds records that are late in their partition.
fn late(sent: &[&OrderEntry], slack: i64) -> Vec<Finding> {
    let mut furthest: Option<(i32, i64)> = None;
    let mut findings = Vec::new();
    for (entry, (partition, offset)) in sent.iter().filter_map(|entry| Some((entry, entry.record?))) {
        match furthest {
            Some((other, order)) if other == partition && entry.order < order => {
                if entry.order.saturating_add(slack) < order {
                    let OrderEntry { topic, row, .. } = (*entry).clone();
                    let places = vec![Place { topic, partition, offset }];
                    let problem = Problem::OutOfOrder;
                    findings.push(Finding { problem, row: Some(row), topic: Some(topic), places });
                }
            }
            _ => furthest = Some((partition, entry.order)),
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::compare::tests::row;
    use super::super::digest::Identity;
    use super::*;

    #[test]
    fn a_position_that_goes_back_is_behind() {
        let mut positions = Positions::default();
        let at = |system: u32, lsn: u32, ordinal: u32| format!("{system}/{lsn:016X}/{ordinal:08X}");
        let cases = [
            (0, at(1, 5, 0), false),
            (0, at(1, 5, 0), false),
            (0, at(1, 5, 2), false),
            (0, at(1, 5, 1), true),
            (0, at(1, 5, 2) + "/01", false),
            (0, at(1, 5, 2) + "/02", false),
            (0, at(1, 5, 2) + "/01", true),
            (0, at(1, 5, 2), true),
            (0, at(1, 5, 3), false),
            (0, at(1, 4, 9), true),
            (1, at(1, 4, 9), false),
            (0, "1/0000000000000005/L0000000000000004/00000000".to_owned(), false),
            (0, "1/0000000000000005/L0000000000000004/00000001".to_owned(), false),
            (0, "1/0000000000000005/L0000000000000004/00000000".to_owned(), true),
            (0, at(1, 5, 9), true),
            (0, at(1, 6, 0), false),
            (0, at(2, 1, 0), false),
            (0, at(2, 0, 0), true),
            (0, at(2, 0, 0) + "/x1", false),
            (0, at(2, 0, 0) + "/", false),
            (0, "rubbish".to_owned(), false),
            (0, String::new(), false),
        ];
        for (partition, text, behind) in cases {
            assert_eq!(positions.is_behind(TopicNumber(0), partition, text.as_bytes()), behind, "{text}");
        }
        assert_eq!(positions.seen(), 18);
    }

    const fn by(slack: i64) -> OrderCheck {
        OrderCheck { slack, tells_late: true }
    }

    #[test]
    fn the_order_of_each_key_is_its_own() {
        let entry = |key: u64, offset: i64, order: i64| OrderEntry {
            key: Identity(key),
            topic: TopicNumber(0),
            record: Some((0, offset)),
            order,
            row: row(u16::try_from(offset).unwrap()),
        };
        let entries = vec![
            entry(1, 0, 10),
            entry(2, 1, 5),
            entry(1, 3, 9),
            entry(1, 2, 20),
            entry(2, 4, 5),
            entry(1, 5, 20),
        ];
        let offsets = |slack| -> Vec<i64> {
            let late = Orders::of(entries.clone(), by(slack)).late;
            late.iter().map(|finding| finding.places[0].offset).collect()
        };
        assert_eq!(offsets(0), [3]);
        assert_eq!(offsets(10), [3]);
        assert_eq!(offsets(11), [0i64; 0]);
        let silent = OrderCheck { tells_late: false, ..by(0) };
        assert_eq!(Orders::of(entries.clone(), silent), Orders::default());
    }

    #[test]
    fn compaction_is_an_excuse_only_with_a_later_record_of_the_key() {
        let entry = |key: u64, record: Option<i64>, order: i64| OrderEntry {
            key: Identity(key),
            topic: TopicNumber(0),
            record: record.map(|offset| (0, offset)),
            order,
            row: row(u16::try_from(order).unwrap()),
        };
        let judged = |entries: &[OrderEntry], slack| {
            let orders = Orders::of(entries.to_vec(), by(slack));
            (orders.absent.iter().map(|entry| entry.order).collect::<Vec<_>>(), orders.compacted)
        };
        let key = [entry(1, None, 1), entry(1, Some(0), 2), entry(1, None, 3)];
        assert_eq!(judged(&key, 0), (vec![3], 1));
        // So near to each other, nothing shows which is the later.
        assert_eq!(judged(&key, 1), (vec![1, 3], 0));
        let other = [entry(1, None, 1), entry(2, Some(0), 2)];
        assert_eq!(judged(&other, 0), (vec![1], 0), "another key's record");
    }
}
