//! The same expansion without an index, as it was written first: the reference for the tests.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value as Json};

use super::super::value::number;
use super::super::{EmptyArrayBehavior, JsonExpansion, NullBehavior};
use connect_data::{Field, Kind, NameAdjustment, Schema, Value};

/// Returns schema and value of a document, or `None` if there is no schema or the value does not fit it.
pub(super) fn expand(expansion: JsonExpansion, key: &str, json: &Json) -> Option<(Schema, Value<'static>)> {
    let schema = infer(expansion, Some(key), json).ok().flatten()?;
    let value = fit(expansion, json, &schema).ok()?;
    Some((schema, value))
}

/// JSON that no schema describes: an array of different things, an empty field name.
#[derive(Debug)]
struct Undescribable;

/// Infers the schema of a JSON value. Returns `None` if the value is ignored. `key` is the dotted path that
/// names structs; it is `None` below an array in an array, where Debezium starts with an empty path.
fn infer(expansion: JsonExpansion, key: Option<&str>, json: &Json) -> Result<Option<Schema>, Undescribable> {
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
                    // The adjustment may give two members the same name.
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

/// Returns the kind of a number: the smallest that Jackson has for it.
fn number_kind(number: &serde_json::Number) -> Kind {
    match number.as_i64() {
        Some(integer) if i32::try_from(integer).is_ok() => Kind::Int32,
        Some(_) => Kind::Int64,
        None => Kind::Float64,
    }
}

/// Infers the common schema of an array's elements.
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
            // A schema that Debezium has merged is not optional; it must be optional if an element is null.
            Some(before) => merge(&before, &schema)?.optional(present().count() < items.len()),
        });
    }
    merged.ok_or(Undescribable)
}

/// Reports whether both are of one of Jackson's node types, where integers and floating point numbers differ.
fn is_same_kind(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => number_kind(left) == number_kind(right),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

/// Merges two schemas: the fields of both, and a known type in place of an unknown one.
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

/// Data that does not fit its schema.
#[derive(Debug)]
struct Misfit;

/// Returns the Connect value of a JSON value.
fn fit(expansion: JsonExpansion, json: &Json, schema: &Schema) -> Result<Value<'static>, Misfit> {
    match (json, &schema.kind) {
        (Json::Null, _) => Ok(Value::Null),
        (Json::String(text), Kind::String) => Ok(Value::Str(Cow::Owned(text.clone()))),
        (Json::Bool(value), Kind::Boolean) => Ok(Value::Bool(*value)),
        (Json::Number(digits), kind) => match number(&digits.to_string()) {
            (actual, value) if actual == *kind => Ok(value.into_owned()),
            _ => Err(Misfit),
        },
        (Json::Array(items), Kind::Array(element)) => {
            let fitted = items.iter().map(|item| fit(expansion, item, element));
            Ok(Value::Array(fitted.collect::<Result<_, _>>()?))
        }
        (Json::Object(members), Kind::Struct(fields)) => fit_struct(expansion, members, fields),
        _ => Err(Misfit),
    }
}

fn fit_struct(
    expansion: JsonExpansion,
    members: &Map<String, Json>,
    fields: &[Field],
) -> Result<Value<'static>, Misfit> {
    // If no member is ignored, the fields are the members, in their order.
    let mut expected = fields.iter();
    for (name, member) in members {
        let field_name = expansion.names.field_name(name);
        if expected.as_slice().first().is_some_and(|field| field.name == field_name) {
            expected.next();
            continue;
        }
        if fields.iter().any(|field| field.name == field_name) {
            continue;
        }
        // The member is either ignored or lost because another element's schema applies to all.
        if !matches!(infer(expansion, Some(name), member), Ok(None)) {
            return Err(Misfit);
        }
    }
    let member_of = |field: &Field| match expansion.names {
        NameAdjustment::None => members.get(&field.name),
        names => {
            members.iter().find(|(name, _)| names.field_name(name) == field.name).map(|(_, member)| member)
        }
    };
    let fitted = fields.iter().map(|field| match member_of(field) {
        Some(member) => fit(expansion, member, &field.schema),
        None => Ok(Value::Null),
    });
    Ok(Value::Struct(fitted.collect::<Result<_, _>>()?))
}
