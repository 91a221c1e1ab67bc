//! The part of an interrupted snapshot that is in Kafka, from which a start resumes.

use serde::{Deserialize, Serialize};

use crate::postgres::PageRange;
use crate::wal::{Lsn, Oid};

/// A snapshot that is not sent to its end: what of it Kafka has, and where the stream will begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct Unfinished {
    /// The slot that keeps the WAL for it. It is none of those that are streamed from.
    pub(in crate::relay) slot: String,
    /// Position of that slot.
    pub(in crate::relay) lsn: Lsn,
    pub(in crate::relay) tables: Vec<SentTable>,
}

/// Sent part of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct SentTable {
    oid: u32,
    /// All of it, or these pages of this file, as they stood when this transaction was the oldest that had not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    part: Option<SentPart>,
}

/// Pages of a table's file that were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::relay) struct SentPart {
    /// `pg_relation_filenode`: a rewritten table has another, and its rows are elsewhere.
    pub(in crate::relay) file: u32,
    /// Row versions of this transaction and later ones may be none of those that were sent.
    pub(in crate::relay) xmin: u32,
    /// Sorted, without overlap.
    pub(in crate::relay) pages: Vec<PageRange>,
}

impl SentTable {
    /// Makes a table that was sent completely.
    pub(in crate::relay) const fn whole(table: Oid) -> Self {
        Self { oid: table.0, part: None }
    }

    /// Makes a table of which these pages were sent.
    pub(in crate::relay) fn part(table: Oid, part: SentPart) -> Self {
        Self { oid: table.0, part: Some(SentPart { pages: merged(part.pages), ..part }) }
    }

    pub(in crate::relay) const fn oid(&self) -> Oid {
        Oid(self.oid)
    }

    /// Returns the sent part, unless all was sent.
    pub(in crate::relay) const fn as_part(&self) -> Option<&SentPart> {
        self.part.as_ref()
    }
}

impl SentPart {
    /// Returns the ranges of pages that were not read.
    pub(in crate::relay) fn lacks(&self) -> Vec<PageRange> {
        let mut lacking = Vec::new();
        let mut from = Some(0);
        for range in &self.pages {
            if let Some(start) = from.filter(|start| *start < range.from) {
                lacking.push(PageRange { from: start, to: Some(range.from) });
            }
            from = range.to;
        }
        lacking.extend(from.map(|from| PageRange { from, to: None }));
        lacking
    }
}

/// Returns the same pages in as few ranges as possible.
fn merged(mut ranges: Vec<PageRange>) -> Vec<PageRange> {
    ranges.sort_unstable();
    let mut merged: Vec<PageRange> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if last.to.is_none_or(|to| to >= range.from) => {
                last.to = match (last.to, range.to) {
                    (Some(a), Some(b)) => Some(a.max(b)),
                    _ => None,
                };
            }
            _ => merged.push(range),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(from: u32, to: impl Into<Option<u32>>) -> PageRange {
        PageRange { from, to: to.into() }
    }

    #[test]
    fn what_was_not_read_is_known() {
        let cases = [
            (vec![], vec![range(0, None)]),
            (vec![range(0, 4)], vec![range(4, None)]),
            (vec![range(8, None), range(0, 4)], vec![range(4, 8)]),
            (vec![range(2, 4), range(4, 6), range(9, 12)], vec![range(0, 2), range(6, 9), range(12, None)]),
            (vec![range(0, None)], vec![]),
        ];
        for (pages, lacking) in cases {
            let table = SentTable::part(Oid(1), SentPart { file: 1, xmin: 1, pages });
            assert_eq!(table.as_part().unwrap().lacks(), lacking);
        }
    }

    #[test]
    fn the_form_is_fixed() {
        let text = r#"{"slot":"a_snapshot","lsn":"0/10","tables":[{"oid":7},{"oid":8,"part":{"file":9,"xmin":750,"pages":[[0,64],[128,null]]}}]}"#;
        let unfinished: Unfinished = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&unfinished).unwrap(), text);
        assert_eq!(unfinished.tables[0], SentTable::whole(Oid(7)));
    }

    proptest! {
        #[test]
        fn each_page_was_read_or_lacks(ranges in prop::collection::vec((0_u32..50, 1_u32..20), 0..10)) {
            let pages: Vec<_> = ranges.iter().map(|(from, length)| range(*from, from + length)).collect();
            let table = SentTable::part(Oid(1), SentPart { file: 1, xmin: 1, pages: pages.clone() });
            let part = table.as_part().unwrap();
            let has = |ranges: &[PageRange], page| {
                ranges.iter().filter(|range| range.from <= page && range.to.is_none_or(|to| page < to)).count()
            };
            for page in 0..80 {
                prop_assert_eq!(has(&part.pages, page), usize::from(has(&pages, page) > 0));
                prop_assert_eq!(has(&part.pages, page) + has(&part.lacks(), page), 1);
            }
        }
    }
}
