//! Decoding of the columns of a row to the values of an event.

use super::{BoundColumn, ChangeTable, Image};
use crate::change::row_change::Row;
use crate::outbox::RouteError;
use connect_data::Value;
use connect_data::column::ColumnError;
use pg_replication::pgoutput::ColumnValue;

impl ChangeTable {
    pub(super) fn key_of<'a>(&'a self, image: Image<'_, 'a>) -> Result<Value<'a>, RouteError> {
        let Some(key) = &self.key else { return Ok(Value::Null) };
        let mut values = self.values(&key.columns, image)?;
        values.extend(key.added.iter().map(|added| Value::str(&added.content)));
        Ok(Value::Struct(values))
    }

    pub(super) fn row_of<'a>(&'a self, image: Image<'_, 'a>) -> Result<Value<'a>, RouteError> {
        self.values(&self.columns, image).map(Value::Struct)
    }

    fn values<'a>(
        &'a self,
        columns: &'a [BoundColumn],
        Image { row, old }: Image<'_, 'a>,
    ) -> Result<Vec<Value<'a>>, RouteError> {
        let mut values = Vec::with_capacity(columns.len());
        for column in columns {
            values.push(self.value(column, row, old)?);
        }
        Ok(values)
    }

    /// Decodes the value of a column.
    pub(in crate::change) fn value<'a>(
        &'a self,
        column: &'a BoundColumn,
        row: Row<'_, 'a>,
        old: Option<Row<'_, 'a>>,
    ) -> Result<Value<'a>, RouteError> {
        let Some(mut value) = row.get(column.index).copied() else {
            return Err(RouteError::ShortRow { table: self.name.clone(), column: column.name.clone() });
        };
        if value == ColumnValue::UnchangedToast {
            match old.and_then(|old| known(old, column.index)) {
                Some(known) => value = known,
                None => return Ok(column.placeholder.reborrow()),
            }
        }
        let decoded = column.codec.decode_without_default(value);
        match decoded.map_err(|source| self.unreadable(column, source))? {
            Value::Null => Ok(column.zero.reborrow()),
            value => Ok(value),
        }
    }

    fn unreadable(&self, column: &BoundColumn, source: ColumnError) -> RouteError {
        RouteError::Column { table: self.name.clone(), column: column.name.clone(), source }
    }
}

/// Returns the old row's value of a column that an update did not change. Such a column is TOASTed, so it is
/// not NULL: NULL in the old row means that the column is not in the replica identity.
pub(super) fn known<'a>(old: Row<'_, 'a>, place: usize) -> Option<ColumnValue<'a>> {
    let known = old.get(place).copied();
    known.filter(|value| !matches!(value, ColumnValue::Null | ColumnValue::UnchangedToast))
}
