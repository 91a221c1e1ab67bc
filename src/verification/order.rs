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
    /// Whether a record with a later position came before this one in its partition. Positions of another database system
    /// cannot be compared: they begin anew.
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

    /// How many records had a position.
    #[must_use]
    pub(crate) const fn seen(&self) -> u64 {
        self.seen
    }
}

/// The system of a position: `system/LSN/L…/number`, or `system/LSN/number` of an outboxd that counted the events of a transaction. The numbers
/// have a fixed width. A record that is not the first of its event has one more behind them.
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

/// The rows whose record comes behind one of the same key whose order is later by more than `slack`. All entries that may
/// be of one key are given together, in any order.
#[must_use]
pub(crate) fn out_of_order(mut entries: Vec<OrderEntry>, slack: i64) -> Vec<Finding> {
    entries.sort_unstable_by_key(|entry| (entry.key, entry.topic, entry.partition, entry.offset));
    let mut furthest = None;
    let mut findings = Vec::new();
    for entry in entries {
        let key = (entry.key, entry.topic, entry.partition);
        match furthest {
            Some((other, order)) if other == key && entry.order < order => {
                if entry.order.saturating_add(slack) < order {
                    findings.push(finding(entry));
                }
            }
            _ => furthest = Some((key, entry.order)),
        }
    }
    findings
}

fn finding(entry: OrderEntry) -> Finding {
    let OrderEntry { topic, partition, offset, row, .. } = entry;
    let places = vec![Place { topic, partition, offset }];
    Finding { problem: Problem::OutOfOrder, row: Some(row), topic: Some(topic), places }
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

    #[test]
    fn the_order_of_each_key_is_its_own() {
        let entry = |key: u64, offset: i64, order: i64| OrderEntry {
            key: Identity(key),
            topic: TopicNumber(0),
            partition: 0,
            offset,
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
            let findings = out_of_order(entries.clone(), slack);
            findings.iter().map(|finding| finding.places[0].offset).collect()
        };
        assert_eq!(offsets(0), [3]);
        assert_eq!(offsets(10), [3]);
        assert_eq!(offsets(11), [0i64; 0]);
    }
}
