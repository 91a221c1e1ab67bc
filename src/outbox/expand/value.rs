use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use super::JsonExpansion;
use super::schema::infer;
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
    // Where nothing is left out, the fields are the members, in their order.
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

/// A number, given as its text, with its kind: the smallest that Jackson has for it. Integers beyond 64 bits and numbers
/// beyond a double keep their digits, all others become what Java has for them.
pub(super) fn number(text: &str) -> (Kind, Value<'_>) {
    if let Ok(integer) = text.parse::<i64>() {
        let narrow = i32::try_from(integer).map(|integer| (Kind::Int32, Value::Int32(integer)));
        return narrow.unwrap_or((Kind::Int64, Value::Int64(integer)));
    }
    let double = text.contains(['.', 'e', 'E']).then(|| text.parse::<f64>().ok()).flatten();
    let value = match double {
        Some(double) if double.is_finite() => Value::Float64(double),
        _ => Value::Json(Cow::Borrowed(text)),
    };
    (Kind::Float64, value)
}
