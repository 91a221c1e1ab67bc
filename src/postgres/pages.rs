//! Tables by their pages: how large they are, and the ranges in which several connections read them.

use super::sql::Sql;
use super::{Error, TableFacts};
use crate::wal::Oid;

/// A range has at most so many pages: 64 MiB with pages of 8 KiB.
const PAGES_MAX: u32 = 8192;

/// And at least so many, unless the table has fewer: a statement costs as much as some pages.
const PAGES_MIN: u32 = 64;

/// Each connection has about so many ranges of a table: they take unequally long.
const RANGES_PER_CONNECTION: u32 = 4;

/// The rows of a table that stand on these pages. In one snapshot each row stands on one page, so that each is in one of the
/// ranges between which a table is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PageRange {
    pub(crate) from: u32,
    /// Behind the last page; without it, as far as the table goes.
    pub(crate) to: Option<u32>,
}

impl PageRange {
    /// The whole table.
    pub(crate) const ALL: Self = Self { from: 0, to: None };

    /// Divides a table of so many pages between so many connections, in the order of its pages. The last range has no end: a
    /// table may have grown since, and one that others inherit from has more pages than its own.
    pub(crate) fn divide(pages: u32, connections: u32) -> Vec<Self> {
        let wanted = pages / connections.saturating_mul(RANGES_PER_CONNECTION).max(1);
        let length = wanted.clamp(PAGES_MIN, PAGES_MAX);
        let mut ranges: Vec<_> = (0..pages)
            .step_by(usize::try_from(length).unwrap_or(1))
            .map(|from| Self { from, to: from.checked_add(length) })
            .collect();
        if ranges.is_empty() {
            ranges.push(Self::ALL);
        }
        if let Some(last) = ranges.last_mut() {
            last.to = None;
        }
        ranges
    }

    /// How many of a table's pages are in it.
    pub(crate) fn pages(self, of: u32) -> u32 {
        self.to.unwrap_or(of).min(of).saturating_sub(self.from)
    }

    /// What a statement that reads the whole table lacks to read this range.
    pub(crate) fn condition(self) -> String {
        let mut conditions = Vec::new();
        if self.from > 0 {
            conditions.push(format!("ctid >= '({},0)'", self.from));
        }
        conditions.extend(self.to.map(|to| format!("ctid < '({to},0)'")));
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
    }
}

const PAGES: &str = "
select (pg_relation_size(c.oid) / current_setting('block_size')::bigint)::bigint
from unnest($1::oid[]) with ordinality t(oid, place) left join pg_class c on c.oid = t.oid
order by t.place";

impl Sql {
    /// How many pages each of the tables has now; none when it is gone.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn pages(&self, tables: &[&TableFacts]) -> Result<Vec<u32>, Error> {
        const DOING: &str = "asking how large the tables are";
        let oids: Vec<u32> = tables.iter().map(|TableFacts { oid: Oid(oid), .. }| *oid).collect();
        let rows = self.query(DOING, PAGES, &[&oids]).await?;
        let pages = |row: &tokio_postgres::Row| -> Result<u32, Error> {
            let pages: Option<i64> = row.try_get(0).map_err(|error| Error::sql(DOING, error))?;
            Ok(u32::try_from(pages.unwrap_or_default()).unwrap_or(u32::MAX))
        };
        rows.iter().map(pages).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn large_tables_are_divided() {
        let ranges = |pages, connections| {
            let conditions = PageRange::divide(pages, connections).into_iter().map(PageRange::condition);
            conditions.collect::<Vec<_>>().join(";")
        };
        assert_eq!(ranges(0, 4), "");
        assert_eq!(ranges(64, 4), "");
        assert_eq!(ranges(65, 4), " WHERE ctid < '(64,0)'; WHERE ctid >= '(64,0)'");
        assert_eq!(
            ranges(2_000, 4),
            (0..16)
                .map(|n| match n {
                    0 => " WHERE ctid < '(125,0)'".to_owned(),
                    15 => " WHERE ctid >= '(1875,0)'".to_owned(),
                    n => format!(" WHERE ctid >= '({},0)' AND ctid < '({},0)'", n * 125, n * 125 + 125),
                })
                .collect::<Vec<_>>()
                .join(";")
        );
    }

    proptest! {
        #[test]
        fn each_page_is_in_one_range(pages in 0..10_000_000_u32, connections in 0..200_u32) {
            let ranges = PageRange::divide(pages, connections);
            prop_assert_eq!((ranges[0].from, ranges[ranges.len() - 1].to), (0, None));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].to == Some(pair[1].from) && pair[0].from < pair[1].from));
            prop_assert_eq!(ranges.iter().map(|range| u64::from(range.pages(pages))).sum::<u64>(), u64::from(pages));
        }
    }
}
