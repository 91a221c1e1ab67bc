use std::sync::Arc;

use super::reference::{Found, Reference};
use super::{DELETED, OPERATION};
use crate::connect::transform::error::Problem;
use crate::connect::transform::schemas::PerSchema;
use crate::connect::transform::structs;
use crate::connect::{Field, Kind, Schema, Value};

/// What is where in the change events of one schema, and what becomes of it.
#[derive(Debug)]
pub(super) struct Layout {
    /// The old row.
    pub(super) before: Row,
    /// The new row.
    pub(super) after: Row,
    /// Fields that are added, or why an event to which they would be added is refused.
    fields: Result<Vec<(String, Found)>, Problem>,
    rewritten: PerSchema<Arc<Schema>>,
}

/// `before` or `after`.
#[derive(Debug)]
pub(super) struct Row {
    /// Where it stands in the event.
    pub(super) position: usize,
    /// Its schema there.
    pub(super) schema: Arc<Schema>,
    /// Its schema with `__deleted`, in the modes that add it.
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

    /// The values of the fields that are added.
    pub(super) fn added_fields<'a>(&self, event: &[Value<'a>]) -> Result<Vec<Value<'a>>, Problem> {
        Ok(self.fields()?.iter().map(|(_, found)| found.value(event)).collect())
    }

    fn fields(&self) -> Result<&[(String, Found)], Problem> {
        self.fields.as_deref().map_err(Problem::clone)
    }

    /// A row's schema with the fields that are added.
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

/// Where the fields are in an event. Where a transform has taken the operation away Debezium adds nothing, not even no field.
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
