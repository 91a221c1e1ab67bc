use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{EmptyArrayBehavior, JsonExpansion, NullBehavior};
use crate::connect::{Field, Kind, NameAdjustment, Schema};

/// JSON that no schema describes: an array of different things, an empty field name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Undescribable;

/// The schema of a JSON value; `None` when the value is to be left out. `key` is the dotted path that names structs,
/// `None` below an array in an array, where Debezium starts anew.
pub(super) fn infer(
    expansion: JsonExpansion,
    key: Option<&str>,
    json: &Json,
) -> Result<Option<Schema>, Undescribable> {
    Ok(match json {
        Json::String(_) => Some(optional(Kind::String)),
        Json::Bool(_) => Some(optional(Kind::Boolean)),
        Json::Number(number) => Some(optional(number_kind(number))),
        Json::Object(members) => {
            let mut fields = Vec::with_capacity(members.len());
            for (name, member) in members {
                if name.is_empty() {
                    return Err(Undescribable);
                }
                let name = expansion.names.field_name(name);
                let path = key.map_or_else(|| name.to_string(), |key| format!("{key}.{name}"));
                if let Some(schema) = infer(expansion, Some(&path), member)? {
                    let renames = expansion.names != NameAdjustment::None;
                    // Two members may have come to one name.
                    if renames && fields.iter().any(|field: &Field| field.name == name) {
                        return Err(Undescribable);
                    }
                    fields.push(Field::new(name, Arc::new(schema)));
                }
            }
            let mut schema = optional(Kind::Struct(fields));
            schema.name = key.map(|key| Cow::Owned(key.to_owned()));
            Some(schema)
        }
        Json::Array(items) if items.is_empty() => match expansion.empty_array {
            EmptyArrayBehavior::Ignore => None,
            EmptyArrayBehavior::OptionalString => Some(array(optional(Kind::String))),
        },
        Json::Array(items) => Some(array(element(expansion, key, items)?)),
        Json::Null => (expansion.null == NullBehavior::OptionalBytes).then(|| optional(Kind::Bytes)),
    })
}

/// What kind of number it is: the smallest that Jackson has for it.
fn number_kind(number: &serde_json::Number) -> Kind {
    match number.as_i64() {
        Some(integer) if i32::try_from(integer).is_ok() => Kind::Int32,
        Some(_) => Kind::Int64,
        None => Kind::Float64,
    }
}

/// The one schema of an array's elements.
fn element(expansion: JsonExpansion, key: Option<&str>, items: &[Json]) -> Result<Schema, Undescribable> {
    let Some(first) = items.iter().find(|item| !item.is_null()) else {
        return infer(expansion, None, &Json::Null)?.ok_or(Undescribable);
    };
    let present = || items.iter().filter(|item| !item.is_null());
    if !present().all(|item| is_same_kind(first, item)) {
        return Err(Undescribable);
    }
    if !first.is_object() {
        return infer(expansion, None, first)?.ok_or(Undescribable);
    }
    let mut merged: Option<Schema> = None;
    for item in present() {
        let Some(schema) = infer(expansion, key, item)? else { continue };
        merged = Some(match merged {
            None => schema,
            Some(before) if before.kind == schema.kind => before,
            // What Debezium merges is not optional any more; it must be where an element is null.
            Some(before) => merge(&before, &schema)?.optional(present().count() < items.len()),
        });
    }
    merged.ok_or(Undescribable)
}

/// Jackson's node types, with its integer and floating point numbers apart.
fn is_same_kind(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => number_kind(left) == number_kind(right),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

/// A schema for both: fields of either, a known type in place of an unknown one.
fn merge(left: &Schema, right: &Schema) -> Result<Schema, Undescribable> {
    let kind = match (&left.kind, &right.kind) {
        (left, right) if left == right => left.clone(),
        (Kind::Bytes, known) | (known, Kind::Bytes) => known.clone(),
        (Kind::Struct(left), Kind::Struct(right)) => Kind::Struct(merge_fields(left, right)?),
        (Kind::Array(left), Kind::Array(right)) => Kind::Array(Arc::new(merge(left, right)?)),
        _ => return Err(Undescribable),
    };
    let name = left.name.clone().or_else(|| right.name.clone());
    Ok(Schema { kind, name, ..left.clone() })
}

fn merge_fields(left: &[Field], right: &[Field]) -> Result<Vec<Field>, Undescribable> {
    let mut fields = left.to_vec();
    for field in right {
        match fields.iter_mut().find(|known| known.name == field.name) {
            Some(known) => known.schema = Arc::new(merge(&known.schema, &field.schema)?),
            None => fields.push(field.clone()),
        }
    }
    Ok(fields)
}

fn optional(kind: Kind) -> Schema {
    Schema::new(kind).optional(true)
}

fn array(element: Schema) -> Schema {
    optional(Kind::Array(Arc::new(element)))
}
