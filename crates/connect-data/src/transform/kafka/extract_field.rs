//! Transform `ExtractField`.

use std::sync::Arc;

use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::field_path::{FieldPath, take_at};
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Refused, Schema};

/// Transform `ExtractField`, which replaces the whole by one of its fields.
#[derive(Debug)]
pub(in crate::transform) struct ExtractField {
    side: Side,
    field: FieldPath,
    replace_null_with_default: bool,
    found: PerSchema<Found>,
}

/// Positions of the fields on the path, and the schema of the last one.
#[derive(Debug)]
struct Found {
    positions: Vec<usize>,
    schema: Arc<Schema>,
}

impl ExtractField {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let field = FieldPath::read(settings, "field")?;
        Ok(Self { side, field, replace_null_with_default, found: PerSchema::default() })
    }

    fn find(&self, schema: &Schema) -> Result<Found, Problem> {
        let unknown = || Problem::UnknownField(self.field.to_string());
        let positions = self.field.positions(schema).ok_or_else(unknown)?;
        let mut current: Option<&Arc<Schema>> = None;
        for position in &positions {
            let parent = current.map_or(schema, |schema| schema);
            current = structs::fields(parent).get(*position).map(|field| &field.schema);
        }
        let schema = Arc::clone(current.ok_or_else(unknown)?);
        Ok(Found { positions, schema })
    }
}

impl Transform for ExtractField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let datum = self.side.of(&mut record);
        let Some(schema) = &datum.schema else {
            return if datum.value.is_null() { Ok(Some(record)) } else { Err(self.side.not_a_struct()) };
        };
        let found = self.found.get(schema, |schema| self.find(schema))?;
        let value = std::mem::replace(&mut datum.value, crate::Value::Null);
        let is_null = value.is_null();
        let extracted = take_at(value, &found.positions);
        let fills = self.replace_null_with_default && !is_null;
        datum.value = if fills { structs::or_default(&found.schema, extracted) } else { extracted };
        datum.schema = Some(Arc::clone(&found.schema));
        Ok(Some(record))
    }
}
