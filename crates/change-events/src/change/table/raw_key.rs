//! Raw values that identify a row of a table.

use super::ChangeTable;
use pg_replication::pgoutput::ColumnValue;

impl ChangeTable {
    /// Returns the raw values that identify a row of the table: those of the primary key, or without one of the record's
    /// key. Rows may share the key of their records (`message.key.columns`). `None` if the table has no key or the row lacks
    /// a value.
    #[must_use]
    pub fn raw_key(&self, row: &[ColumnValue<'_>]) -> Option<Vec<Option<Vec<u8>>>> {
        let value = |index: &usize| match row.get(*index)? {
            ColumnValue::Text(bytes) | ColumnValue::Binary(bytes) => Some(Some(bytes.to_vec())),
            ColumnValue::Null => Some(None),
            ColumnValue::UnchangedToast => None,
        };
        if self.identity.is_empty() {
            return None;
        }
        self.identity.iter().map(value).collect()
    }

    /// Returns the names of the key's columns, in the key's order.
    pub fn key_columns(&self) -> impl Iterator<Item = &str> {
        self.key.iter().flat_map(|key| &key.columns).map(|column| column.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::direct_tests::table;

    #[test]
    fn rows_with_the_same_record_key_are_different_rows() {
        let row = |id: &'static [u8]| {
            [
                ColumnValue::Text(id),
                ColumnValue::Text(b"same"),
                ColumnValue::Null,
                ColumnValue::Null,
                ColumnValue::Null,
            ]
        };
        let by_score = table(&[("message.key.columns", "public.t:score")]);
        assert_eq!(by_score.key_columns().collect::<Vec<_>>(), ["score"]);
        for table in [by_score, table(&[])] {
            assert_eq!(table.raw_key(&row(b"1")), Some(vec![Some(b"1".to_vec())]));
            assert_eq!(table.raw_key(&row(b"2")), Some(vec![Some(b"2".to_vec())]));
        }
    }
}
