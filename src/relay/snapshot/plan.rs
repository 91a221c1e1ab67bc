//! Pieces in which tables are read, and the markers of their rows.

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
    /// A table that is read: its last row waits until it is known whether another row comes behind it.
    read: Option<usize>,
    rows: u64,
    pages: u64,
    pages_read: u64,
}

/// Part of a table that one connection reads at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// The table's place among those of the snapshot.
    pub(super) table: usize,
    pub(super) range: PageRange,
    /// Oldest transaction whose rows are read again: the rest was sent before an interruption.
    pub(super) since: Option<u32>,
}

/// Parts of a table that must be read.
#[derive(Debug)]
pub(super) struct Pieces {
    /// Number of its pages.
    pub(super) pages: u32,
    pub(super) ranges: Vec<(PageRange, Option<u32>)>,
    /// Pages that were sent before.
    pub(super) sent: Vec<PageRange>,
}

#[derive(Debug)]
struct Planned {
    pages: u32,
    pieces_left: usize,
    rows: u64,
    /// Last row, with its piece: it waits until it is known whether it is the last one of the table and of
    /// the snapshot.
    held: Option<(RowBatch, Piece)>,
    /// Ranges of which all rows were handed over, but perhaps the one that waits.
    sent: Vec<PageRange>,
}

/// Result of a piece's end for its table.
#[derive(Debug)]
pub(super) enum Ended {
    /// Other pieces of it are still to be read.
    Piece,
    /// The table is read, with this number of rows.
    Table { rows: u64 },
}

/// The last row of a table, which may be sent now.
#[derive(Debug)]
pub(super) struct LastRow {
    pub(super) table: usize,
    pub(super) row: RowBatch,
    pub(super) marker: Marker,
}

/// Scope of which a row is the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    Neither,
    OfTable,
    OfAll,
}

impl Plan {
    /// Plans tables in these pieces, at least one each.
    pub(super) fn new(tables: impl IntoIterator<Item = Pieces>) -> Self {
        let (mut planned, mut waiting) = (Vec::new(), VecDeque::new());
        for (table, Pieces { pages, ranges, sent }) in tables.into_iter().enumerate() {
            planned.push(Planned { pages, pieces_left: ranges.len(), rows: 0, held: None, sent });
            waiting.extend(ranges.into_iter().map(|(range, since)| Piece { table, range, since }));
        }
        let pages = planned.iter().map(|table| u64::from(table.pages)).sum();
        let tables_left = planned.iter().filter(|table| table.pieces_left > 0).count();
        Self { tables: planned, waiting, tables_left, read: None, rows: 0, pages, pages_read: 0 }
    }

    /// Returns the next piece, for a connection that has nothing to do.
    pub(super) fn next(&mut self) -> Option<Piece> {
        self.waiting.pop_front()
    }

    /// Returns whether tables must still be read.
    pub(super) const fn is_running(&self) -> bool {
        self.tables_left > 0
    }

    /// Keeps the last of a table's new rows back, and returns the one that was kept back before, which may be
    /// sent now.
    pub(super) fn keep_back(&mut self, piece: Piece, batch: &RowBatch) -> Option<RowBatch> {
        let planned = self.tables.get_mut(piece.table)?;
        let last = batch.len().checked_sub(1).and_then(|last| batch.row(last))?;
        let mut held = RowBatch::default();
        held.push(&last);
        planned.held.replace((held, piece)).map(|(before, _)| before)
    }

    /// Returns the marker of the next row of a table, which is not its last.
    pub(super) fn mark(&mut self, table: usize) -> Marker {
        self.count(table, Last::Neither)
    }

    /// Removes and returns the last row of a table that is read. It is not the last of the snapshot yet, as
    /// another row follows.
    pub(super) fn take_last(&mut self) -> Option<LastRow> {
        self.take_last_as(Last::OfTable)
    }

    /// Does the same when all tables are read: it is the last row of the snapshot, even if empty tables
    /// follow.
    pub(super) fn take_very_last(&mut self) -> Option<LastRow> {
        if self.is_running() {
            return None;
        }
        self.take_last_as(Last::OfAll)
    }

    fn take_last_as(&mut self, last: Last) -> Option<LastRow> {
        let table = self.read.take()?;
        let (row, _) = self.tables.get_mut(table)?.held.take()?;
        Some(LastRow { table, row, marker: self.count(table, last) })
    }

    /// Ends a piece. If it has rows ([`Self::has_rows`]), the last row of another table that is read must
    /// have been removed before.
    pub(super) fn end(&mut self, piece: Piece) -> Ended {
        let Some(planned) = self.tables.get_mut(piece.table) else { return Ended::Piece };
        self.pages_read = self.pages_read.saturating_add(u64::from(piece.range.pages(planned.pages)));
        planned.pieces_left = planned.pieces_left.saturating_sub(1);
        if piece.since.is_none() {
            planned.sent.push(piece.range);
        }
        if planned.pieces_left > 0 {
            return Ended::Piece;
        }
        let (waits, rows) = (planned.held.is_some(), planned.rows);
        if waits {
            self.read = Some(piece.table);
        }
        self.tables_left = self.tables_left.saturating_sub(1);
        Ended::Table { rows: rows.saturating_add(u64::from(waits)) }
    }

    /// Returns whether the last row of a table waits.
    pub(super) fn has_rows(&self, table: usize) -> bool {
        self.tables.get(table).is_some_and(|planned| planned.held.is_some())
    }

    /// Returns the ranges of a table of which all rows were handed over; `None` when it is read to its end.
    pub(super) fn sent(&self, table: usize) -> Option<Vec<PageRange>> {
        let planned = self.tables.get(table)?;
        let waits = planned.held.as_ref().map(|(_, piece)| piece.range);
        let is_sent = |range: &&PageRange| waits != Some(**range);
        let is_whole = planned.pieces_left == 0 && waits.is_none();
        (!is_whole).then(|| planned.sent.iter().filter(is_sent).copied().collect())
    }

    /// Returns the progress.
    pub(super) fn tally(&self) -> TablesRead {
        let count = |tables: usize| u64::try_from(tables).unwrap_or(u64::MAX);
        TablesRead {
            is_complete: false,
            tables: count(self.tables.len()),
            remaining: count(self.tables_left),
            rows: self.rows,
            pages: self.pages,
            pages_read: self.pages_read,
        }
    }

    fn count(&mut self, table: usize, last: Last) -> Marker {
        let Some(planned) = self.tables.get_mut(table) else { return Marker::True };
        let of_row = Edge { first: planned.rows == 0, last: last != Last::Neither };
        let of_table = Edge { first: table == 0, last: last == Last::OfAll };
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

    /// Returns what is sent when these rows arrive of tables in this number of pieces, and when the pieces
    /// end.
    fn sent(tables: &[usize], events: &[(usize, Option<usize>)]) -> Vec<(usize, Marker)> {
        let ranges = |count: &usize| Pieces {
            pages: 0,
            ranges: vec![(PageRange::ALL, None); *count],
            sent: Vec::new(),
        };
        let mut plan = Plan::new(tables.iter().map(ranges));
        let mut sent = Vec::new();
        let take = |last: Option<LastRow>| last.map(|last| (last.table, last.marker));
        for (table, rows) in events {
            let piece = Piece { table: *table, range: PageRange::ALL, since: None };
            match rows {
                Some(rows) => {
                    sent.extend(take(plan.take_last()));
                    let before = plan.keep_back(piece, &batch(*rows)).into_iter();
                    let now = before.map(|_| ()).chain((1..*rows).map(|_| ()));
                    now.for_each(|()| sent.push((*table, plan.mark(*table))));
                }
                None => {
                    if plan.has_rows(*table) {
                        sent.extend(take(plan.take_last()));
                    }
                    let _ended = plan.end(piece);
                }
            }
        }
        assert!(!plan.is_running());
        sent.extend(take(plan.take_very_last()));
        sent
    }

    #[test]
    fn each_row_has_its_place_also_when_tables_are_read_at_once() {
        use Marker::{First, FirstInDataCollection, Last, LastInDataCollection, True};
        let cases = [
            (vec![1], vec![(0, Some(3)), (0, None)], vec![(0, First), (0, True), (0, Last)]),
            (
                vec![1, 1],
                vec![(0, Some(1)), (0, None), (1, Some(2)), (1, None)],
                vec![(0, First), (1, FirstInDataCollection), (1, Last)],
            ),
            (
                vec![1, 1],
                vec![(0, Some(2)), (0, None), (1, Some(1)), (1, None)],
                vec![(0, First), (0, LastInDataCollection), (1, Last)],
            ),
            // Two pieces of the first table, and the second ends before it.
            (
                vec![2, 1],
                vec![(0, Some(1)), (1, Some(2)), (0, Some(1)), (0, None), (1, None), (0, Some(1)), (0, None)],
                vec![(1, FirstInDataCollection), (0, First), (1, LastInDataCollection), (0, True), (0, Last)],
            ),
            // The first ends while a row of the second waits, and nothing comes behind that.
            (
                vec![1, 1],
                vec![(1, Some(1)), (0, Some(2)), (0, None), (1, None)],
                vec![(0, First), (0, LastInDataCollection), (1, Last)],
            ),
            (vec![1, 2], vec![(0, None), (1, None), (1, None)], vec![]),
            // The last table is empty, or the first.
            (vec![1, 1], vec![(0, Some(2)), (0, None), (1, None)], vec![(0, First), (0, Last)]),
            (
                vec![1, 1],
                vec![(0, None), (1, Some(2)), (1, None)],
                vec![(1, FirstInDataCollection), (1, Last)],
            ),
        ];
        for (tables, events, expected) in cases {
            assert_eq!(sent(&tables, &events), expected, "{tables:?} {events:?}");
        }
    }

    #[test]
    fn a_range_whose_last_row_waits_is_not_sent() {
        let range = |from| PageRange { from, to: Some(from + 10) };
        let ranges = [range(0), range(10), range(20)].map(|range| (range, None)).to_vec();
        let recheck = (range(50), Some(7));
        let pieces = Pieces { pages: 60, ranges: [vec![recheck], ranges].concat(), sent: vec![range(50)] };
        let mut plan = Plan::new([pieces]);
        let pieces: Vec<Piece> = std::iter::from_fn(|| plan.next()).collect();
        assert_eq!(plan.sent(0), Some(vec![range(50)]));
        assert!(matches!(plan.end(pieces[0]), Ended::Piece));
        assert!(plan.keep_back(pieces[1], &batch(2)).is_none());
        assert!(matches!(plan.end(pieces[1]), Ended::Piece));
        assert_eq!(plan.sent(0), Some(vec![range(50)]), "its row waits");
        assert!(plan.keep_back(pieces[2], &batch(1)).is_some());
        assert_eq!(plan.sent(0), Some(vec![range(50), range(0)]));
        assert!(matches!(plan.end(pieces[2]), Ended::Piece));
        assert!(matches!(plan.end(pieces[3]), Ended::Table { rows: 1 }));
        let all_but_one = Some(vec![range(50), range(0), range(20)]);
        assert_eq!(plan.sent(0), all_but_one, "its last row waits");
        assert!(plan.take_very_last().is_some());
        assert_eq!(plan.sent(0), None, "all of it");
    }
}
