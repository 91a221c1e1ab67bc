//! Common schemas of the parts of a list or a map.

use std::mem::discriminant;
use std::sync::Arc;

use super::{DATE, TIME, TIMESTAMP};
use crate::source_record::Datum;
use crate::{Kind, Schema, Value};

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Numbers, from the narrowest to the widest.
const NUMBERS: [Kind; 6] = [Kind::Int8, Kind::Int16, Kind::Int32, Kind::Int64, Kind::Float32, Kind::Float64];

/// Schema that all parts can have.
#[derive(Debug, Default)]
pub(super) enum Common {
    /// There is no part but null.
    #[default]
    Unknown,
    Schema(Arc<Schema>),
    /// The parts are of types that do not match.
    Mixed,
}

impl Common {
    /// Adds the schema of a part; null has none.
    pub(super) fn add(&mut self, schema: Option<Arc<Schema>>) {
        let Some(schema) = schema else { return };
        *self = match std::mem::take(self) {
            Self::Unknown => Self::Schema(schema),
            Self::Schema(former) => merged(former, schema).map_or(Self::Mixed, Self::Schema),
            Self::Mixed => Self::Mixed,
        };
    }

    fn known(self) -> Option<Arc<Schema>> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::Unknown | Self::Mixed => None,
        }
    }
}

/// Returns the wider of two numbers, or the latter of two schemas with one type.
fn merged(former: Arc<Schema>, latter: Arc<Schema>) -> Option<Arc<Schema>> {
    if discriminant(&former.kind) == discriminant(&latter.kind) {
        return Some(latter);
    }
    let width = |schema: &Schema| NUMBERS.iter().position(|kind| *kind == schema.kind);
    Some(if width(&former)? > width(&latter)? { former } else { latter })
}

/// Makes a list. Returns `None` if an item cannot be converted to the type of the list, such as null.
pub(super) fn list(common: Common, items: Vec<Value<'static>>) -> Option<Datum<'static>> {
    let (element, items) = match common.known() {
        Some(element) => {
            let items = items.into_iter().map(|item| aligned(&element, item)).collect::<Option<_>>()?;
            (element, items)
        }
        None => (untyped(), items),
    };
    Some(Datum::new(Arc::new(Schema::new(Kind::Array(element))), Value::Array(items)))
}

/// Makes a map. Its values have no type either if the keys have none. Returns `None` if a key or a value cannot be converted.
pub(super) fn map(
    [keys, values]: [Common; 2],
    entries: Vec<(Value<'static>, Value<'static>)>,
) -> Option<Datum<'static>> {
    let (keys, values) = match keys.known() {
        Some(keys) => (Some(keys), values.known()),
        None => (None, None),
    };
    let mut all = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = aligned_if(keys.as_ref(), key)?;
        let value = aligned_if(values.as_ref(), value)?;
        put(&mut all, key, value);
    }
    let kind = Kind::Map(keys.unwrap_or_else(untyped), values.unwrap_or_else(untyped));
    Some(Datum::new(Arc::new(Schema::new(kind)), Value::Map(all)))
}

/// Adds an entry, or replaces the value of an equal key.
pub(super) fn put(
    entries: &mut Vec<(Value<'static>, Value<'static>)>,
    key: Value<'static>,
    value: Value<'static>,
) {
    match entries.iter_mut().find(|(known, _)| known.equals(&key)) {
        Some((_, former)) => *former = value,
        None => entries.push((key, value)),
    }
}

fn untyped() -> Arc<Schema> {
    Arc::new(Schema::new(Kind::Untyped).optional(true))
}

fn aligned_if(schema: Option<&Arc<Schema>>, value: Value<'static>) -> Option<Value<'static>> {
    match schema {
        Some(schema) => aligned(schema, value),
        None => Some(value),
    }
}

/// Converts a part to the common schema. As in Kafka, lists, maps, and dates under the schema of another moment stay as they are.
fn aligned(schema: &Schema, value: Value<'static>) -> Option<Value<'static>> {
    Some(match (&schema.kind, schema.name(), value) {
        (_, _, Value::Null) => return None,
        (_, Some(DATE | TIME | TIMESTAMP), date @ Value::Date(_)) => date,
        (_, Some(name @ (DATE | TIME | TIMESTAMP)), number) => Value::Date(moment(name, whole(&number)?)?),
        (Kind::Int16, _, number) => Value::Int16(whole(&number)?.try_into().ok()?),
        (Kind::Int32, _, number) => Value::Int32(whole(&number)?.try_into().ok()?),
        (Kind::Int64, _, number) => Value::Int64(whole(&number)?),
        (Kind::Float32, _, number) => Value::Float32(single(&number)?),
        (Kind::Float64, _, number) => Value::Float64(double(&number)?),
        (_, _, other) => other,
    })
}

/// Returns the milliseconds of a number of days for a date, and of milliseconds for a time or timestamp.
fn moment(name: &str, number: i64) -> Option<i64> {
    match name {
        DATE => number.checked_mul(MILLIS_PER_DAY),
        TIME => (0..=MILLIS_PER_DAY).contains(&number).then_some(number),
        _ => Some(number),
    }
}

fn whole(value: &Value<'_>) -> Option<i64> {
    Some(match value {
        Value::Int8(number) => (*number).into(),
        Value::Int16(number) => (*number).into(),
        Value::Int32(number) => (*number).into(),
        Value::Int64(number) => *number,
        _ => return None,
    })
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float32(number) => Some((*number).into()),
        Value::Float64(number) => Some(*number),
        other => whole(other)?.to_string().parse().ok(),
    }
}

/// Returns a whole number as a float. Java rounds it to a double first.
fn single(value: &Value<'_>) -> Option<f32> {
    match value {
        Value::Float32(number) => Some(*number),
        other => format!("{:.0}", double(other)?).parse().ok(),
    }
}
