//! Rows on their way from a reader to the relay, in one buffer.

use std::ops::Range;

use crate::pgoutput::{ColumnValue, Tuple};

/// Rows of one table in one buffer: each is copied once, regardless of its columns.
#[derive(Debug, Default)]
pub(crate) struct RowBatch {
    bytes: Vec<u8>,
    /// Range of each column of each row; `None` is NULL.
    values: Vec<Option<Range<usize>>>,
    columns: usize,
    rows: usize,
}

impl RowBatch {
    /// Adds a row. All of a batch have the same columns.
    pub(crate) fn push(&mut self, row: &Tuple<'_>) {
        (self.columns, self.rows) = (row.columns().len(), self.rows.saturating_add(1));
        for column in row.columns() {
            self.values.push(match column {
                ColumnValue::Text(bytes) | ColumnValue::Binary(bytes) => {
                    let from = self.bytes.len();
                    self.bytes.extend_from_slice(bytes);
                    Some(from..self.bytes.len())
                }
                ColumnValue::Null | ColumnValue::UnchangedToast => None,
            });
        }
    }

    /// Returns the number of rows.
    pub(crate) const fn len(&self) -> usize {
        self.rows
    }

    /// Returns the number of bytes of their values.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns a row as it was read; `None` after the last.
    pub(crate) fn row(&self, index: usize) -> Option<Tuple<'_>> {
        let from = index.checked_mul(self.columns).filter(|_| index < self.rows)?;
        let values = self.values.get(from..from.checked_add(self.columns)?)?;
        let value = |range: &Range<usize>| self.bytes.get(range.clone());
        let column =
            |range: &Option<_>| range.as_ref().and_then(value).map_or(ColumnValue::Null, ColumnValue::Text);
        Some(values.iter().map(column).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple<'a>(row: &[Option<&'a [u8]>]) -> Tuple<'a> {
        row.iter().map(|value| value.map_or(ColumnValue::Null, ColumnValue::Text)).collect()
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let rows: [&[Option<&[u8]>]; 3] =
            [&[Some(b"1"), None, Some(b"")], &[None, None, None], &[Some(b"22"), Some(b"x"), Some(b"y")]];
        let mut batch = RowBatch::default();
        assert!(batch.row(0).is_none());
        rows.iter().for_each(|row| batch.push(&tuple(row)));
        assert_eq!((batch.len(), batch.bytes()), (3, 5));
        for (index, row) in rows.iter().enumerate() {
            assert_eq!(batch.row(index), Some(tuple(row)));
        }
        assert!(batch.row(3).is_none());
    }

    #[test]
    fn rows_without_columns_are_counted() {
        let mut batch = RowBatch::default();
        batch.push(&Tuple::default());
        assert_eq!((batch.row(0), batch.row(1)), (Some(Tuple::default()), None));
    }
}
