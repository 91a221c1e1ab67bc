use std::sync::Arc;

use super::table::{BoundColumn, Row};
use crate::connect::source_record::Datum;
use crate::connect::{Field, Kind, Schema, Value};

/// A row that comes to an EventRouter among other transforms.
#[derive(Clone, Copy)]
pub(super) struct Arrived<'r, 'a> {
    /// As the database sent it.
    pub(super) row: Row<'r, 'a>,
    /// As transforms before the router have left it, if they have changed it.
    changed: Option<(&'r [Field], &'r [Value<'a>])>,
}

impl<'r, 'a> Arrived<'r, 'a> {
    /// The row, and the event with it that transforms have changed.
    pub(super) fn new(row: Row<'r, 'a>, changed: Option<&'r Datum<'a>>) -> Self {
        Self { row, changed: changed.and_then(new_row) }
    }

    /// What transforms have made of a column. Null stays null, its default notwithstanding.
    pub(super) fn changed(self, column: &BoundColumn) -> Option<(&'r Arc<Schema>, &'r Value<'a>)> {
        let (fields, values) = self.changed?;
        let mut all = fields.iter().zip(values);
        all.find(|(field, _)| field.name == column.name).map(|(field, value)| (&field.schema, value))
    }
}

/// The row behind the change that an event tells.
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
