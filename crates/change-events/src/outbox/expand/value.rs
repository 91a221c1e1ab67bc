//! Connect values of JSON.

use std::borrow::Cow;

use serde_json::{Map, Value as Json};

use super::room::Room;
use super::shape::{Fields, Form, Shape};
use super::{JsonExpansion, Unexpandable};
use connect_data::{Kind, Value};

/// Returns the Connect value of a JSON value of this shape.
pub(super) fn fit(
    expansion: JsonExpansion,
    json: &Json,
    shape: &Shape<'_>,
    room: &mut Room,
) -> Result<Value<'static>, Unexpandable> {
    match (json, &shape.form) {
        (Json::Null, _) => Ok(Value::Null),
        (Json::String(text), Form::Scalar(Kind::String)) => Ok(Value::Str(Cow::Owned(text.clone()))),
        (Json::Bool(value), Form::Scalar(Kind::Boolean)) => Ok(Value::Bool(*value)),
        (Json::Number(digits), Form::Scalar(kind)) => match number(&digits.to_string()) {
            (actual, value) if actual == *kind => Ok(value.into_owned()),
            _ => Err(Unexpandable::Undescribable),
        },
        (Json::Array(items), Form::Array(element)) => {
            let fitted = items.iter().map(|item| fit(expansion, item, element, room));
            Ok(Value::Array(fitted.collect::<Result<_, _>>()?))
        }
        (Json::Object(members), Form::Struct(fields)) => fit_struct(expansion, members, fields, room),
        _ => Err(Unexpandable::Undescribable),
    }
}

fn fit_struct(
    expansion: JsonExpansion,
    members: &Map<String, Json>,
    fields: &Fields<'_>,
    room: &mut Room,
) -> Result<Value<'static>, Unexpandable> {
    let mut found = Vec::new();
    found.resize_with(fields.len(), || None);
    for (place, (name, member)) in members.iter().enumerate() {
        let Some((index, shape)) = field(fields, place, &expansion.names.field_name(name)) else {
            // The member is either ignored or lost because another element's schema applies to all.
            if !matches!(Shape::of(expansion, member), Ok(None)) {
                return Err(Unexpandable::Undescribable);
            }
            continue;
        };
        // Of members with the same adjusted name, the first counts.
        if let Some(free @ None) = found.get_mut(index) {
            *free = Some(fit(expansion, member, shape, room)?);
        }
    }
    let mut values = Vec::with_capacity(found.len());
    for (value, name) in found.into_iter().zip(fields.keys()) {
        if value.is_none() {
            room.fill_in(name)?;
        }
        values.push(value.unwrap_or(Value::Null));
    }
    Ok(Value::Struct(values))
}

/// Returns the field of this name with its position. If no member is ignored, it is the member's position.
fn field<'s, 'j>(fields: &'s Fields<'j>, place: usize, name: &str) -> Option<(usize, &'s Shape<'j>)> {
    if let Some((_, shape)) = fields.get_index(place).filter(|(field, _)| *field == name) {
        return Some((place, shape));
    }
    fields.get_full(name).map(|(index, _, shape)| (index, shape))
}

/// Returns a number, given as its text, and its kind: the smallest that Jackson has for it. Integers beyond
/// 64 bits and numbers beyond a double retain their digits, all others become the value that Java has for
/// them.
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
