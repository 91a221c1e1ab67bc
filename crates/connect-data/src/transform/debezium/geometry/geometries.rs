//! Search for the geometries in a value, for the transforms that change them.

use crate::java::hash_map::{Made, in_order, in_order_of_numbers};
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::{Kind, Schema, Value};

const GEOMETRY: &str = "io.debezium.data.geometry.Geometry";

/// Containers in which geometries are searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) enum Inside {
    /// Structs.
    Structs,
    /// Structs, lists and maps.
    All,
}

/// Parts of a geometry that transforms need.
#[derive(Debug)]
pub(super) struct Geometry<'v, 'a> {
    /// Well-known binary.
    pub(in crate::transform) wkb: &'v mut Value<'a>,
    /// Number of the reference system, if there is one.
    pub(super) srid: Option<i32>,
}

/// Change of a geometry by a transform.
type Change<'c> = &'c dyn Fn(Geometry<'_, '_>) -> Result<(), Problem>;

impl Inside {
    /// Changes the geometries among a struct's fields. Nulls are replaced by defaults, as by Java's `Struct.get`.
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
                *entries = in_map_order(std::mem::take(entries));
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

/// Returns the error for a null in a map: the Java class fails on one when it rebuilds the map.
fn null_in_map(field: &str) -> Problem {
    let (field, schema) = (field.to_owned(), "MAP with a null in it".to_owned());
    Problem::UnsupportedField { field, schema, transform: "SwapGeometryCoordinates" }
}

/// Sorts entries in the order of a Java map into which they are inserted one by one.
fn in_map_order<'a>(entries: Vec<(Value<'a>, Value<'a>)>) -> Vec<(Value<'a>, Value<'a>)> {
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
