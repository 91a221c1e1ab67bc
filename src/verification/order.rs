use std::collections::HashMap;

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

/// The text of a position is `system/LSN/ordinal`, of which the last two have a fixed width. A record that is not the first of
/// its event has one more number behind it.
const PLACE_BYTES: usize = "/0000000000000000/00000000".len();

fn system_of(position: &[u8]) -> Option<&[u8]> {
    system_of_first(position).or_else(|| {
        let at = position.iter().rposition(|byte| *byte == b'/')?;
        let (first, part) = position.split_at_checked(at)?;
        let is_part = part.len() > 2 && part.iter().skip(1).all(u8::is_ascii_hexdigit);
        system_of_first(first).filter(|_| is_part)
    })
}

fn system_of_first(position: &[u8]) -> Option<&[u8]> {
    let (system, place) = position.split_at_checked(position.len().checked_sub(PLACE_BYTES)?)?;
    let is_place = place.iter().enumerate().all(|(index, byte)| match index {
        0 | 17 => *byte == b'/',
        _ => byte.is_ascii_hexdigit(),
    });
    (is_place && !system.is_empty()).then_some(system)
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
        assert_eq!(positions.seen(), 14);
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
