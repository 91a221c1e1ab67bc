use std::borrow::Cow;

use serde_json::{Map, Number, Value as Json};

use super::JsonExpansion;
use super::schema::{infer, number_kind};
use crate::connect::{Field, Kind, NameAdjustment, Schema, Value};

/// Data that its schema does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Misfit;

/// The Connect value of a JSON value.
pub(super) fn fit(expansion: JsonExpansion, json: &Json, schema: &Schema) -> Result<Value<'static>, Misfit> {
    match (json, &schema.kind) {
        (Json::Null, _) => Ok(Value::Null),
        (Json::String(text), Kind::String) => Ok(Value::Str(Cow::Owned(text.clone()))),
        (Json::Bool(value), Kind::Boolean) => Ok(Value::Bool(*value)),
        (Json::Number(number), kind) if number_kind(number) == *kind => fit_number(number),
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
    let has_field = |name: &str| {
        let name = expansion.names.field_name(name);
        fields.iter().any(|field| field.name == name)
    };
    for (name, member) in members.iter().filter(|(name, _)| !has_field(name)) {
        // Left out on purpose, or lost because another element's schema stands for all?
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

/// Integers beyond 64 bits and numbers beyond a double keep their digits, all others become what Java has for them.
fn fit_number(number: &Number) -> Result<Value<'static>, Misfit> {
    let digits = || Value::Json(Cow::Owned(number.to_string()));
    match number.as_i64() {
        Some(integer) => Ok(i32::try_from(integer).map_or(Value::Int64(integer), Value::Int32)),
        None if !number.to_string().contains(['.', 'e', 'E']) => Ok(digits()),
        None => match number.as_f64() {
            Some(double) if double.is_finite() => Ok(Value::Float64(double)),
            _ => Ok(digits()),
        },
    }
}
