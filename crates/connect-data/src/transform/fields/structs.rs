//! Helpers of transforms for structs and their schemas.

use crate::transform::error::Problem;
use crate::{Field, Kind, Schema, Value};

/// Returns the fields of a struct's schema; none for a schema of another kind.
pub(in crate::transform) fn fields(schema: &Schema) -> &[Field] {
    match &schema.kind {
        Kind::Struct(fields) => fields,
        _ => &[],
    }
}

/// Returns the position of a field.
pub(in crate::transform) fn position(schema: &Schema, name: &str) -> Option<usize> {
    fields(schema).iter().position(|field| field.name == name)
}

/// Returns a field and its position; fails when there is no such field.
pub(in crate::transform) fn required<'s>(
    schema: &'s Schema,
    name: &str,
) -> Result<(usize, &'s Field), Problem> {
    let mut all = fields(schema).iter().enumerate();
    all.find(|(_, field)| field.name == name).ok_or_else(|| Problem::UnknownField(name.to_owned()))
}

/// Returns a required schema of this kind with the name, version, documentation and parameters of another one
/// (`SchemaUtil.copySchemaBasics`).
pub(in crate::transform) fn with_basics_of(schema: &Schema, kind: Kind) -> Schema {
    Schema { kind, optional: false, default: None, ..schema.clone() }
}

/// Returns such a schema for a struct with these fields; fails when two have the same name.
pub(in crate::transform) fn struct_with(schema: &Schema, fields: Vec<Field>) -> Result<Schema, Problem> {
    for (index, field) in fields.iter().enumerate() {
        if fields.iter().take(index).any(|before| before.name == field.name) {
            return Err(Problem::DuplicateField(field.name.clone()));
        }
    }
    Ok(with_basics_of(schema, Kind::Struct(fields)))
}

/// Returns a value as Java's `Struct.get` does: the default in place of null.
pub(in crate::transform) fn or_default<'a>(schema: &Schema, value: Value<'a>) -> Value<'a> {
    match (&value, &schema.default) {
        (Value::Null, Some(default)) => default.clone(),
        _ => value,
    }
}

/// Replaces nulls by defaults.
pub(in crate::transform) fn fill_defaults(schema: &Schema, values: &mut [Value<'_>]) {
    for (field, value) in fields(schema).iter().zip(values) {
        take_default(&field.schema, value);
    }
}

/// Replaces null by the default.
pub(in crate::transform) fn take_default(schema: &Schema, value: &mut Value<'_>) {
    if let (Value::Null, Some(default)) = (&*value, &schema.default) {
        *value = default.clone();
    }
}

/// Takes a value out of a struct.
pub(in crate::transform) fn take<'a>(values: &mut [Value<'a>], index: usize) -> Value<'a> {
    values.get_mut(index).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
}
