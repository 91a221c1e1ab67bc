//! Rows of a chunk until the stream has passed it.

use std::collections::{HashMap, VecDeque};

use super::place::ReadRow;

/// The key of a row: the texts of its key's columns.
pub type RowKey = Vec<Option<Vec<u8>>>;

/// The rows of a chunk, in the order in which they were read, until the stream has passed its end. A row is
/// removed when the stream changes its key, because the row of the stream is at least as new.
#[derive(Debug, Default)]
pub(super) struct Window {
    rows: Vec<Option<ReadRow>>,
    places: HashMap<RowKey, Vec<usize>>,
}

impl Window {
    pub(super) fn new(rows: Vec<ReadRow>) -> Self {
        let mut places: HashMap<RowKey, Vec<usize>> = HashMap::with_capacity(rows.len());
        for (at, row) in rows.iter().enumerate() {
            places.entry(row.key.clone()).or_default().push(at);
        }
        Self { rows: rows.into_iter().map(Some).collect(), places }
    }

    /// Removes the rows with this key, because the stream has changed them.
    pub(super) fn forget(&mut self, key: &RowKey) {
        for at in self.places.remove(key).unwrap_or_default() {
            if let Some(row) = self.rows.get_mut(at) {
                *row = None;
            }
        }
    }

    /// Discards all rows, for example after TRUNCATE.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes and returns the remaining rows.
    pub(super) fn take(&mut self) -> VecDeque<ReadRow> {
        std::mem::take(self).rows.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str) -> ReadRow {
        ReadRow { key: vec![Some(key.into())], values: vec![Some(key.into())], place: None }
    }

    #[test]
    fn what_the_stream_changes_leaves_the_window() {
        let mut window = Window::new(["a", "b", "b", "c"].map(row).into());
        window.forget(&vec![Some("b".into())]);
        window.forget(&vec![Some("z".into())]);
        window.forget(&vec![None]);
        assert_eq!(window.take(), ["a", "c"].map(row));
        assert!(window.take().is_empty());
    }
}
