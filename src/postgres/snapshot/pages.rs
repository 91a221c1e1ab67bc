//! Tables by their pages: how large they are, and the ranges in which several connections read them.

use serde::{Deserialize, Serialize};

use crate::postgres::connections::sql::Sql;
use crate::postgres::{Error, TableFacts};
use crate::wal::Oid;

/// Most pages of a range: 64 MiB with pages of 8 KiB.
const PAGES_MAX: u32 = 8192;

/// Fewest pages of a range, unless the table has fewer: a statement costs as much as some pages.
const PAGES_MIN: u32 = 64;

/// Approximate number of a table's ranges for each connection, because ranges differ in duration.
const RANGES_PER_CONNECTION: u32 = 4;

/// The rows of a table on these pages. In one snapshot each row is on one page, so that each is in one of the
/// ranges between which a table is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(u32, Option<u32>)", into = "(u32, Option<u32>)")]
pub(crate) struct PageRange {
    pub(crate) from: u32,
    /// The page after the last one; without it, the range reaches to the end of the table.
    pub(crate) to: Option<u32>,
}

/// Size of a table, and the file of its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TableSize {
    pub(crate) pages: u32,
    /// `pg_relation_filenode`; none of a table that others inherit from, a partitioned one too: its rows are in several files.
    pub(crate) file: Option<u32>,
}

impl From<(u32, Option<u32>)> for PageRange {
    fn from((from, to): (u32, Option<u32>)) -> Self {
        Self { from, to }
    }
}

impl From<PageRange> for (u32, Option<u32>) {
    fn from(PageRange { from, to }: PageRange) -> Self {
        (from, to)
    }
}

impl PageRange {
    /// The whole table.
    pub(crate) const ALL: Self = Self { from: 0, to: None };

    /// Divides the range of a table with this number of pages between this number of connections, in the
    /// order of its pages. The last range has no end: a table may have grown since, and one that others
    /// inherit from has more pages than its own.
    pub(crate) fn divide(self, pages: u32, connections: u32) -> Vec<Self> {
        let wanted = pages / connections.saturating_mul(RANGES_PER_CONNECTION).max(1);
        let length = wanted.clamp(PAGES_MIN, PAGES_MAX);
        let mut ranges: Vec<_> = (self.from..self.to.unwrap_or(pages))
            .step_by(usize::try_from(length).unwrap_or(1))
            .map(|from| Self { from, to: from.checked_add(length) })
            .collect();
        match ranges.last_mut() {
            Some(last) => last.to = self.to,
            None => ranges.push(self),
        }
        ranges
    }

    /// Returns the number of a table's pages that are in it.
    pub(crate) fn pages(self, of: u32) -> u32 {
        self.to.unwrap_or(of).min(of).saturating_sub(self.from)
    }

    /// Returns the condition to add to a statement that reads the whole table, so that it reads this range;
    /// only the row versions of a transaction and of later ones, if one is given.
    pub(crate) fn condition(self, since: Option<u32>) -> String {
        let mut conditions = Vec::new();
        // What is frozen is older than any; its age may seem to be anything, so that it is read too often at worst.
        conditions.extend(since.map(|xid| {
            format!("pg_catalog.age(xmin) OPERATOR(pg_catalog.<=) pg_catalog.age('{xid}'::pg_catalog.xid)")
        }));
        if self.from > 0 {
            conditions.push(format!("ctid OPERATOR(pg_catalog.>=) '({},0)'", self.from));
        }
        conditions.extend(self.to.map(|to| format!("ctid OPERATOR(pg_catalog.<) '({to},0)'")));
        if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
    }
}

const PAGES: &str = "
select (pg_relation_size(c.oid) / current_setting('block_size')::bigint)::bigint,
       case when not exists (select from pg_inherits i where i.inhparent = c.oid) then pg_relation_filenode(c.oid) end
from unnest($1::oid[]) with ordinality t(oid, place) left join pg_class c on c.oid = t.oid
order by t.place";

/// A partitioned table has the pages of its partitions.
const ROWS: &str = "
select coalesce((select sum(greatest(l.reltuples, 0)) from pg_partition_tree(t.oid) p join pg_class l on l.oid = p.relid where p.isleaf),
                greatest(c.reltuples, 0), 0)::bigint
from unnest($1::oid[]) with ordinality t(oid, place) left join pg_class c on c.oid = t.oid
order by t.place";

impl Sql {
    /// Reads the catalog's estimate of the number of rows of each table; one that was never analyzed has
    /// none.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn estimates(&self, tables: &[&TableFacts]) -> Result<Vec<i64>, Error> {
        const DOING: &str = "asking how many rows the tables have";
        let oids: Vec<u32> = tables.iter().map(|TableFacts { oid: Oid(oid), .. }| *oid).collect();
        let rows = self.query(DOING, ROWS, &[&oids]).await?;
        rows.iter().map(|row| row.try_get(0).map_err(|error| Error::sql(DOING, error))).collect()
    }

    /// Reads the present size of each table; a dropped one has no pages.
    ///
    /// # Errors
    /// When the query fails.
    pub(crate) async fn sizes(&self, tables: &[&TableFacts]) -> Result<Vec<TableSize>, Error> {
        const DOING: &str = "asking how large the tables are";
        let oids: Vec<u32> = tables.iter().map(|TableFacts { oid: Oid(oid), .. }| *oid).collect();
        let rows = self.query(DOING, PAGES, &[&oids]).await?;
        let size = |row: &tokio_postgres::Row| -> Result<TableSize, Error> {
            let pages: Option<i64> = row.try_get(0).map_err(|error| Error::sql(DOING, error))?;
            let file = row.try_get(1).map_err(|error| Error::sql(DOING, error))?;
            Ok(TableSize { pages: u32::try_from(pages.unwrap_or_default()).unwrap_or(u32::MAX), file })
        };
        rows.iter().map(size).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn large_tables_are_divided() {
        let ranges = |pages, connections| {
            let conditions =
                PageRange::ALL.divide(pages, connections).into_iter().map(|range| range.condition(None));
            conditions.collect::<Vec<_>>().join(";")
        };
        assert_eq!(ranges(0, 4), "");
        assert_eq!(ranges(64, 4), "");
        assert_eq!(
            ranges(65, 4),
            " WHERE ctid OPERATOR(pg_catalog.<) '(64,0)'; WHERE ctid OPERATOR(pg_catalog.>=) '(64,0)'"
        );
        assert_eq!(
            ranges(2_000, 4),
            (0..16)
                .map(|n| match n {
                    0 => " WHERE ctid OPERATOR(pg_catalog.<) '(125,0)'".to_owned(),
                    15 => " WHERE ctid OPERATOR(pg_catalog.>=) '(1875,0)'".to_owned(),
                    n => format!(" WHERE ctid OPERATOR(pg_catalog.>=) '({},0)' AND ctid OPERATOR(pg_catalog.<) '({},0)'", n * 125, n * 125 + 125),
                })
                .collect::<Vec<_>>()
                .join(";")
        );
    }

    #[test]
    fn a_part_is_divided_too() {
        let part = PageRange { from: 100, to: Some(300) };
        let range = |from, to| PageRange { from, to: Some(to) };
        assert_eq!(part.divide(400, 1), [range(100, 200), range(200, 300)]);
        let rest = PageRange { from: 500, to: None };
        assert_eq!(rest.divide(400, 1), [rest]);
        assert_eq!(
            rest.condition(Some(750)),
            " WHERE pg_catalog.age(xmin) OPERATOR(pg_catalog.<=) pg_catalog.age('750'::pg_catalog.xid) AND ctid OPERATOR(pg_catalog.>=) '(500,0)'"
        );
    }

    proptest! {
        #[test]
        fn each_page_is_in_one_range(pages in 0..10_000_000_u32, connections in 0..200_u32) {
            let ranges = PageRange::ALL.divide(pages, connections);
            prop_assert_eq!((ranges[0].from, ranges[ranges.len() - 1].to), (0, None));
            prop_assert!(ranges.windows(2).all(|pair| pair[0].to == Some(pair[1].from) && pair[0].from < pair[1].from));
            prop_assert_eq!(ranges.iter().map(|range| u64::from(range.pages(pages))).sum::<u64>(), u64::from(pages));
        }
    }
}
