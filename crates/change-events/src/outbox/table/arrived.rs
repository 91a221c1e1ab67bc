//! Rows that reach an EventRouter among other transforms.

use std::sync::Arc;

use super::{BoundColumn, Row};
use connect_data::source_record::Datum;
use connect_data::{Field, Kind, Schema, Value};

/// A row that reaches an EventRouter among other transforms.
#[derive(Clone, Copy)]
pub(in crate::outbox) struct Arrived<'r, 'a> {
    /// The row as the database sent it.
    pub(in crate::outbox) row: Row<'r, 'a>,
    /// The fields and values of the row after the transforms before the router, if they have changed it.
    changed: Option<(&'r [Field], &'r [Value<'a>])>,
}

impl<'r, 'a> Arrived<'r, 'a> {
    /// Combines the row and the event with the row that transforms have changed.
    pub(in crate::outbox) fn new(row: Row<'r, 'a>, changed: Option<&'r Datum<'a>>) -> Self {
        Self { row, changed: changed.and_then(new_row) }
    }

    /// Returns the schema and value of a column after the transforms, if they have changed the row. Null
    /// stays null even if the column has a default.
    pub(in crate::outbox) fn changed(self, column: &BoundColumn) -> Option<(&'r Arc<Schema>, &'r Value<'a>)> {
        let (fields, values) = self.changed?;
        let mut all = fields.iter().zip(values);
        all.find(|(field, _)| field.name == column.name).map(|(field, value)| (&field.schema, value))
    }
}

/// Returns the fields and values of an event's field `after`.
fn new_row<'r, 'a>(event: &'r Datum<'a>) -> Option<(&'r [Field], &'r [Value<'a>])> {
    let (Kind::Struct(fields), Value::Struct(values)) = (&event.schema.as_deref()?.kind, &event.value) else {
        return None;
    };
    let (field, row) = fields.iter().zip(values).find(|(field, _)| field.name == "after")?;
    match (&field.schema.kind, row) {
        (Kind::Struct(fields), Value::Struct(values)) => Some((fields, values)),
        _ => None,
    }
}
