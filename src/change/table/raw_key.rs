use super::{BoundColumn, ChangeTable};
use crate::pgoutput::ColumnValue;

impl ChangeTable {
    /// Returns the raw values of the key's columns, by which rows are compared; `None` if the table has no
    /// key or the row lacks a value.
    #[must_use]
    pub(crate) fn raw_key(&self, row: &[ColumnValue<'_>]) -> Option<Vec<Option<Vec<u8>>>> {
        let column = |column: &BoundColumn| match row.get(column.index)? {
            ColumnValue::Text(bytes) | ColumnValue::Binary(bytes) => Some(Some(bytes.to_vec())),
            ColumnValue::Null => Some(None),
            ColumnValue::UnchangedToast => None,
        };
        let key = self.key.as_ref().filter(|key| !key.columns.is_empty())?;
        key.columns.iter().map(column).collect()
    }

    /// Returns the names of the key's columns, in the key's order.
    pub(crate) fn key_columns(&self) -> impl Iterator<Item = &str> {
        self.key.iter().flat_map(|key| &key.columns).map(|column| column.name.as_str())
    }
}
