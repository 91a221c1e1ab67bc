//! What transforms need of structs and of their schemas.

use super::error::Problem;
use crate::connect::{Field, Kind, Schema, Value};

/// The fields of a struct's schema; none when it is another one.
pub(super) fn fields(schema: &Schema) -> &[Field] {
    match &schema.kind {
        Kind::Struct(fields) => fields,
        _ => &[],
    }
}

/// Where a field stands.
pub(super) fn position(schema: &Schema, name: &str) -> Option<usize> {
    fields(schema).iter().position(|field| field.name == name)
}

/// Where a field stands, and its schema.
pub(super) fn required<'s>(schema: &'s Schema, name: &str) -> Result<(usize, &'s Field), Problem> {
    let mut all = fields(schema).iter().enumerate();
    all.find(|(_, field)| field.name == name).ok_or_else(|| Problem::UnknownField(name.to_owned()))
}

/// A required schema with the name, version, documentation and parameters of another one
/// (`SchemaUtil.copySchemaBasics`).
pub(super) fn with_basics_of(schema: &Schema, kind: Kind) -> Schema {
    Schema { kind, optional: false, default: None, ..schema.clone() }
}

/// The same for a struct, with these fields.
pub(super) fn struct_with(schema: &Schema, fields: Vec<Field>) -> Result<Schema, Problem> {
    for (index, field) in fields.iter().enumerate() {
        if fields.iter().take(index).any(|before| before.name == field.name) {
            return Err(Problem::DuplicateField(field.name.clone()));
        }
    }
    Ok(with_basics_of(schema, Kind::Struct(fields)))
}

/// A value as Java's `Struct.get` gives it: the default stands for null.
pub(super) fn or_default<'a>(schema: &Schema, value: Value<'a>) -> Value<'a> {
    match (&value, &schema.default) {
        (Value::Null, Some(default)) => default.clone(),
        _ => value,
    }
}

/// Puts defaults where nulls are.
pub(super) fn fill_defaults(schema: &Schema, values: &mut [Value<'_>]) {
    for (field, value) in fields(schema).iter().zip(values) {
        take_default(&field.schema, value);
    }
}

/// Puts the default where null is.
pub(super) fn take_default(schema: &Schema, value: &mut Value<'_>) {
    if let (Value::Null, Some(default)) = (&*value, &schema.default) {
        *value = default.clone();
    }
}

/// Takes a value out of a struct.
pub(super) fn take<'a>(values: &mut [Value<'a>], index: usize) -> Value<'a> {
    values.get_mut(index).map_or(Value::Null, |value| std::mem::replace(value, Value::Null))
}
