//! The geometries inside a value, for the transforms that change them.

use super::error::Problem;
use super::structs;
use crate::connect::java_hash_map::{Made, in_order, in_order_of_numbers};
use crate::connect::{Kind, Schema, Value};

const GEOMETRY: &str = "io.debezium.data.geometry.Geometry";

/// Which geometries are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Inside {
    /// Those in structs.
    Structs,
    /// Those in structs, lists and maps.
    All,
}

/// The parts of a geometry that transforms work on.
#[derive(Debug)]
pub(super) struct Geometry<'v, 'a> {
    /// The well-known binary.
    pub(super) wkb: &'v mut Value<'a>,
    /// The number of the reference system, if there is one.
    pub(super) srid: Option<i32>,
}

/// What a transform does to a geometry.
type Change<'c> = &'c dyn Fn(Geometry<'_, '_>) -> Result<(), Problem>;

impl Inside {
    /// Changes the geometries among a struct's fields. As Java's `Struct.get` gives them, defaults come in the place of nulls.
    pub(super) fn change_all(
        self,
        schema: &Schema,
        values: &mut [Value<'_>],
        change: Change<'_>,
    ) -> Result<(), Problem> {
        for (field, value) in structs::fields(schema).iter().zip(values) {
            structs::take_default(&field.schema, value);
            self.change(&field.name, &field.schema, value, change)?;
        }
        Ok(())
    }

    fn change(
        self,
        field: &str,
        schema: &Schema,
        value: &mut Value<'_>,
        change: Change<'_>,
    ) -> Result<(), Problem> {
        match (&schema.kind, value) {
            (Kind::Struct(_), Value::Struct(parts)) if schema.name() == Some(GEOMETRY) => {
                geometry(schema, parts).map_or(Ok(()), change)
            }
            (Kind::Struct(_), Value::Struct(values)) => self.change_all(schema, values, change),
            (Kind::Array(schema), Value::Array(items)) if self == Self::All => {
                items.iter_mut().try_for_each(|item| self.change(field, schema, item, change))
            }
            (Kind::Map(_, schema), Value::Map(entries)) if self == Self::All => {
                for (_, value) in entries.iter_mut() {
                    if value.is_null() {
                        return Err(null_in_map(field));
                    }
                    self.change(field, schema, value, change)?;
                }
                *entries = made_anew(std::mem::take(entries));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn geometry<'v, 'a>(schema: &Schema, parts: &'v mut [Value<'a>]) -> Option<Geometry<'v, 'a>> {
    let srid = match parts.get(structs::position(schema, "srid")?)? {
        Value::Int32(srid) => Some(*srid),
        _ => None,
    };
    let wkb = parts.get_mut(structs::position(schema, "wkb")?)?;
    Some(Geometry { wkb, srid })
}

/// Java's way to make the map anew takes no nulls.
fn null_in_map(field: &str) -> Problem {
    let (field, schema) = (field.to_owned(), "MAP with a null in it".to_owned());
    Problem::UnsupportedField { field, schema, transform: "SwapGeometryCoordinates" }
}

/// In the order of a Java map into which they are put one by one.
fn made_anew<'a>(entries: Vec<(Value<'a>, Value<'a>)>) -> Vec<(Value<'a>, Value<'a>)> {
    if entries.iter().all(|(key, _)| matches!(key, Value::Str(_))) {
        return in_order(entries, Made::Empty, |(key, _)| match key {
            Value::Str(key) => key,
            _ => "",
        });
    }
    in_order_of_numbers(entries, Made::Empty, |(key, _)| match key {
        Value::Int16(key) => key.unsigned_abs(),
        _ => 0,
    })
}
