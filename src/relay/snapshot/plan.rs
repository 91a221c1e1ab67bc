//! In which pieces tables are read, and where each row stands.

use std::collections::VecDeque;

use crate::change::{Edge, Snapshot as Marker};
use crate::postgres::{PageRange, RowBatch};
use crate::telemetry::TablesRead;

/// The tables of a snapshot, in their order, and their pieces. Several pieces may be read at once.
#[derive(Debug)]
pub(super) struct Plan {
    tables: Vec<Planned>,
    waiting: VecDeque<Piece>,
    tables_left: usize,
    rows: u64,
    pages: u64,
    pages_read: u64,
}

/// What one connection reads at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The table's place among those of the snapshot.
    pub(super) table: usize,
    pub(super) range: PageRange,
}

#[derive(Debug)]
struct Planned {
    pages: u32,
    pieces_left: usize,
    rows: u64,
    /// Its last row waits until it is known whether it is the last one.
    held: Option<RowBatch>,
}

/// What the end of a piece means for its table.
#[derive(Debug)]
pub(super) enum Ended {
    /// Other pieces of it are still to be read.
    Piece,
    /// It is read, and so many rows of it were; this one is its last.
    Table { last: Option<(RowBatch, Marker)>, rows: u64 },
}

impl Plan {
    /// Of tables with so many pages each, in these pieces.
    pub(super) fn new(tables: impl IntoIterator<Item = (u32, Vec<PageRange>)>) -> Self {
        let (mut planned, mut waiting) = (Vec::new(), VecDeque::new());
        for (table, (pages, ranges)) in tables.into_iter().enumerate() {
            planned.push(Planned { pages, pieces_left: ranges.len(), rows: 0, held: None });
            waiting.extend(ranges.into_iter().map(|range| Piece { table, range }));
        }
        let pages = planned.iter().map(|table| u64::from(table.pages)).sum();
        let tables_left = planned.len();
        Self { tables: planned, waiting, tables_left, rows: 0, pages, pages_read: 0 }
    }

    /// The next piece, for a connection that has nothing to do.
    pub(super) fn next(&mut self) -> Option<Piece> {
        self.waiting.pop_front()
    }

    /// Whether tables are still to be read.
    pub(super) const fn is_running(&self) -> bool {
        self.tables_left > 0
    }

    /// Rows of a table were read. The last of them is kept back instead of the one that was, which may be sent now.
    pub(super) fn keep_back(&mut self, table: usize, batch: &RowBatch) -> Option<RowBatch> {
        let planned = self.tables.get_mut(table)?;
        let last = batch.len().checked_sub(1).and_then(|last| batch.row(last))?;
        let mut held = RowBatch::default();
        held.push(&last);
        planned.held.replace(held)
    }

    /// Where the next row stands that is sent of a table, and which is not its last.
    pub(super) fn mark(&mut self, table: usize) -> Marker {
        self.count(table, false)
    }

    /// A piece is read.
    pub(super) fn end(&mut self, piece: Piece) -> Ended {
        let Some(planned) = self.tables.get_mut(piece.table) else { return Ended::Piece };
        self.pages_read = self.pages_read.saturating_add(u64::from(piece.range.pages(planned.pages)));
        planned.pieces_left = planned.pieces_left.saturating_sub(1);
        if planned.pieces_left > 0 {
            return Ended::Piece;
        }
        let held = planned.held.take();
        let last = held.map(|row| (row, self.count(piece.table, true)));
        self.tables_left = self.tables_left.saturating_sub(1);
        Ended::Table { last, rows: self.tables.get(piece.table).map_or(0, |planned| planned.rows) }
    }

    /// How far it is.
    pub(super) fn tally(&self) -> TablesRead {
        let count = |tables: usize| u64::try_from(tables).unwrap_or(u64::MAX);
        TablesRead {
            tables: count(self.tables.len()),
            remaining: count(self.tables_left),
            rows: self.rows,
            pages: self.pages,
            pages_read: self.pages_read,
        }
    }

    fn count(&mut self, table: usize, last: bool) -> Marker {
        let Some(planned) = self.tables.get_mut(table) else { return Marker::True };
        let of_row = Edge { first: planned.rows == 0, last };
        let of_table = Edge { first: self.rows == 0, last: self.tables_left == 1 };
        planned.rows = planned.rows.saturating_add(1);
        self.rows = self.rows.saturating_add(1);
        Marker::of(of_row, of_table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pgoutput::{ColumnValue, Tuple};

    fn batch(rows: usize) -> RowBatch {
        let mut batch = RowBatch::default();
        let row: Tuple<'_> = std::iter::once(ColumnValue::Text(b"x")).collect();
        (0..rows).for_each(|_| batch.push(&row));
        batch
    }

    /// What is sent when these rows come of these tables, and when their pieces end.
    fn sent(tables: &[usize], events: &[(usize, Option<usize>)]) -> Vec<(usize, Marker)> {
        let ranges = |count: &usize| (0_u32, vec![PageRange::ALL; *count]);
        let mut plan = Plan::new(tables.iter().map(ranges));
        let mut sent = Vec::new();
        for (table, rows) in events {
            match rows {
                Some(rows) => {
                    let before = plan.keep_back(*table, &batch(*rows)).into_iter();
                    let now = before.map(|_| ()).chain((1..*rows).map(|_| ()));
                    now.for_each(|()| sent.push((*table, plan.mark(*table))));
                }
                None => {
                    let ended = plan.end(Piece { table: *table, range: PageRange::ALL });
                    if let Ended::Table { last: Some((_, marker)), .. } = ended {
                        sent.push((*table, marker));
                    }
                }
            }
        }
        assert!(!plan.is_running());
        sent
    }

    #[test]
    fn each_row_tells_where_it_stands_also_when_tables_are_read_at_once() {
        use Marker::{First, FirstInDataCollection, Last, LastInDataCollection, True};
        let cases = [
            (vec![1], vec![(0, Some(3)), (0, None)], vec![(0, First), (0, True), (0, Last)]),
            (
                vec![1, 1],
                vec![(0, Some(1)), (0, None), (1, Some(2)), (1, None)],
                vec![(0, LastInDataCollection), (1, FirstInDataCollection), (1, Last)],
            ),
            // Two pieces of the first table, and the second ends before it.
            (
                vec![2, 1],
                vec![(0, Some(1)), (1, Some(2)), (0, Some(1)), (0, None), (1, None), (0, Some(1)), (0, None)],
                vec![(1, First), (0, FirstInDataCollection), (1, LastInDataCollection), (0, True), (0, Last)],
            ),
            (vec![1, 2], vec![(0, None), (1, None), (1, None)], vec![]),
        ];
        for (tables, events, expected) in cases {
            assert_eq!(sent(&tables, &events), expected, "{tables:?} {events:?}");
        }
    }
}
