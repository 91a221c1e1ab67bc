//! Transform `Flatten`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Schema, Value};

/// Transform `Flatten`, which moves the fields of nested structs into the struct itself.
#[derive(Debug)]
pub(in crate::transform) struct Flatten {
    side: Side,
    delimiter: String,
    schemas: PerSchema<Arc<Schema>>,
}

/// Properties of a struct that its fields inherit.
#[derive(Clone, Copy)]
struct Inherited<'s> {
    prefix: &'s str,
    optional: bool,
    default: Option<&'s Value<'static>>,
}

impl Flatten {
    pub(in crate::transform) fn read(side: Side, settings: &Settings<'_, '_>) -> Self {
        let delimiter = settings.raw("delimiter").unwrap_or_else(|| ".".to_owned());
        Self { side, delimiter, schemas: PerSchema::default() }
    }

    fn schema(&self, schema: &Schema) -> Result<Arc<Schema>, Problem> {
        let mut fields = Vec::new();
        let inherited = Inherited { prefix: "", optional: schema.optional, default: schema.default.as_ref() };
        self.collect(schema, inherited, &mut fields)?;
        structs::struct_with(schema, fields).map(Arc::new)
    }

    fn collect(&self, schema: &Schema, above: Inherited<'_>, out: &mut Vec<Field>) -> Result<(), Problem> {
        for (index, field) in structs::fields(schema).iter().enumerate() {
            let name = match above.prefix {
                "" => field.name.clone(),
                prefix => format!("{prefix}{}{}", self.delimiter, field.name),
            };
            let optional = above.optional || field.schema.optional;
            let inherited = match above.default {
                Some(Value::Struct(values)) => values.get(index).filter(|value| !value.is_null()),
                _ => None,
            };
            let default = field.schema.default.as_ref().or(inherited);
            match &field.schema.kind {
                Kind::Struct(_) => {
                    self.collect(&field.schema, Inherited { prefix: &name, optional, default }, out)?;
                }
                Kind::Map(..) => {
                    let (schema, transform) = (field.schema.kind.to_string(), "Flatten");
                    return Err(Problem::UnsupportedField { field: name, schema, transform });
                }
                kind => {
                    let basics = structs::with_basics_of(&field.schema, kind.clone());
                    let leaf = Schema { optional, default: default.cloned(), ..basics };
                    out.push(Field::new(name, Arc::new(leaf)));
                }
            }
        }
        Ok(())
    }
}

impl Transform for Flatten {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(taken) = self.side.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let schema = self.schemas.get(&taken.schema, |schema| self.schema(schema))?;
        let mut values = Vec::with_capacity(structs::fields(&schema).len());
        flatten(&taken.schema, taken.values, &mut values);
        *self.side.of(&mut record) = Datum::new(Arc::clone(&schema), Value::Struct(values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record)
    }
}

fn flatten<'a>(schema: &Schema, values: Vec<Value<'a>>, out: &mut Vec<Value<'a>>) {
    for (field, value) in structs::fields(schema).iter().zip(values) {
        match (&field.schema.kind, structs::or_default(&field.schema, value)) {
            (Kind::Struct(_), Value::Struct(inner)) => flatten(&field.schema, inner, out),
            (Kind::Struct(_), _) => out.extend(std::iter::repeat_n(Value::Null, leaves(&field.schema))),
            (_, value) => out.push(value),
        }
    }
}

/// Returns the number of fields that a struct becomes.
fn leaves(schema: &Schema) -> usize {
    let of = |field: &Field| match field.schema.kind {
        Kind::Struct(_) => leaves(&field.schema),
        _ => 1,
    };
    structs::fields(schema).iter().map(of).sum()
}
