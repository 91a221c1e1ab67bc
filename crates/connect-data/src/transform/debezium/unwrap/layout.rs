//! Positions in change events that ExtractNewRecordState reads.

use std::sync::Arc;

use super::reference::{Found, Reference};
use super::{DELETED, OPERATION};
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::structs;
use crate::{Field, Kind, Schema, Value};

/// Positions in the change events of one schema, and the schemas of the resulting rows.
#[derive(Debug)]
pub(super) struct Layout {
    /// Old row.
    pub(super) before: Row,
    /// New row.
    pub(super) after: Row,
    /// Added fields, or the error for an event to which they would be added.
    fields: Result<Vec<(String, Found)>, Problem>,
    rewritten: PerSchema<Arc<Schema>>,
}

/// Row `before` or `after` of an event.
#[derive(Debug)]
pub(super) struct Row {
    /// Position in the event.
    pub(super) position: usize,
    /// Schema in the event.
    pub(super) schema: Arc<Schema>,
    /// Schema with `__deleted`, in the modes that add it.
    pub(super) marked: Arc<Schema>,
}

impl Layout {
    pub(super) fn of(event: &Schema, is_marked: bool, fields: &[Reference]) -> Result<Self, Problem> {
        let row = |name| Row::of(event, name, is_marked);
        Ok(Self {
            before: row("before")?,
            after: row("after")?,
            fields: places(event, fields),
            rewritten: PerSchema::default(),
        })
    }

    /// Returns the values of the added fields.
    pub(super) fn added_fields<'a>(&self, event: &[Value<'a>]) -> Result<Vec<Value<'a>>, Problem> {
        Ok(self.fields()?.iter().map(|(_, found)| found.value(event)).collect())
    }

    fn fields(&self) -> Result<&[(String, Found)], Problem> {
        self.fields.as_deref().map_err(Problem::clone)
    }

    /// Returns a row's schema with the added fields.
    pub(super) fn with_added_fields(&self, schema: &Arc<Schema>) -> Result<Arc<Schema>, Problem> {
        let made = self.rewritten.get(schema, |schema| with_fields(schema, self.fields()?).map(Arc::new))?;
        Ok(Arc::clone(&made))
    }
}

impl Row {
    fn of(event: &Schema, name: &str, is_marked: bool) -> Result<Self, Problem> {
        let (position, field) = structs::required(event, name)?;
        let schema = Arc::clone(&field.schema);
        let marked = if is_marked { Arc::new(with_mark(&schema)?) } else { Arc::clone(&schema) };
        Ok(Self { position, schema, marked })
    }
}

/// Returns the positions of the fields in an event. As Debezium does, it fails when a transform has removed the operation,
/// even if no fields are added.
fn places(event: &Schema, fields: &[Reference]) -> Result<Vec<(String, Found)>, Problem> {
    structs::required(event, OPERATION)?;
    let mut places = Vec::with_capacity(fields.len());
    for reference in fields {
        if let Some(place) = reference.find(event)? {
            places.push((reference.new_name().to_owned(), place));
        }
    }
    Ok(places)
}

fn with_mark(schema: &Schema) -> Result<Schema, Problem> {
    let mark = Field::new(DELETED, Arc::new(Schema::new(Kind::String).optional(true)));
    structs::struct_with(schema, structs::fields(schema).iter().cloned().chain([mark]).collect())
}

fn with_fields(schema: &Schema, added: &[(String, Found)]) -> Result<Schema, Problem> {
    let added = added.iter().map(|(name, found)| Field::new(name.clone(), Arc::clone(&found.schema)));
    structs::struct_with(schema, structs::fields(schema).iter().cloned().chain(added).collect())
}
