//! Geometric types of PostgreSQL, as Debezium shows them since 3.7: a line and a circle by their numbers, the others as
//! well-known binary. A `point` has its own, older form.

pub(in crate::column) mod point;
pub(in crate::column) mod postgis;

use std::borrow::Cow;

use crate::column::format::{nullable, required};
use crate::{Field, Kind, Schema, Value};

/// Byte order (little-endian) and geometry type that begin well-known binary.
const WKB_LINE_STRING: [u8; 5] = [1, 2, 0, 0, 0];
const WKB_POLYGON: [u8; 5] = [1, 3, 0, 0, 0];
/// Number of rings of a polygon without holes.
const ONE_RING: u32 = 1;

type Point = (f64, f64);

/// A geometric type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum Geometry {
    Line,
    Circle,
    Segment,
    Box,
    Path,
    Polygon,
}

impl Geometry {
    /// Returns the geometric type with this PostgreSQL name.
    pub(in crate::column) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "line" => Self::Line,
            "circle" => Self::Circle,
            "lseg" => Self::Segment,
            "box" => Self::Box,
            "path" => Self::Path,
            "polygon" => Self::Polygon,
            _ => return None,
        })
    }

    /// Returns the schema. Debezium makes it optional even if the column is NOT NULL.
    pub(in crate::column) fn schema(self) -> Schema {
        match self {
            Self::Line => {
                let fields = ["a", "b", "c"].map(|name| required(name, Kind::Float64));
                documented("io.debezium.data.geometry.Line", 1, "Geometry (LINE)", fields.into())
            }
            Self::Circle => {
                let center = Field::new("center", point::schema().into());
                let fields = vec![center, required("radius", Kind::Float64)];
                documented("io.debezium.data.geometry.Circle", 1, "Geometry (CIRCLE)", fields)
            }
            Self::Segment | Self::Box | Self::Path | Self::Polygon => well_known_schema(),
        }
    }

    /// Reads a value.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        match self {
            Self::Line => {
                let numbers = text.strip_prefix('{')?.strip_suffix('}')?;
                let numbers: Option<Vec<_>> = numbers.split(',').map(number).collect();
                let [a, b, c]: [f64; 3] = numbers?.try_into().ok()?;
                Some(Value::Struct([a, b, c].map(Value::Float64).into()))
            }
            Self::Circle => {
                let (center, radius) = text.strip_prefix('<')?.strip_suffix('>')?.rsplit_once(',')?;
                Some(Value::Struct(vec![point::decode(center)?, Value::Float64(number(radius)?)]))
            }
            Self::Segment => {
                let corners = points(text.strip_prefix('[')?.strip_suffix(']')?)?;
                Some(well_known(&line_string(&corners)?, &[("type", "lseg")]))
            }
            Self::Box => {
                let [(right, top), (left, bottom)]: [Point; 2] = points(text)?.try_into().ok()?;
                let ring = [(right, top), (right, bottom), (left, bottom), (left, top), (right, top)];
                Some(well_known(&polygon(&ring)?, &[("type", "box")]))
            }
            Self::Path => {
                let (inner, closed) = match text.strip_prefix('[') {
                    Some(open) => (open.strip_suffix(']')?, "false"),
                    None => (text.strip_prefix('(')?.strip_suffix(')')?, "true"),
                };
                Some(well_known(&line_string(&points(inner)?)?, &[("type", "path"), ("closed", closed)]))
            }
            Self::Polygon => {
                let mut ring = points(text.strip_prefix('(')?.strip_suffix(')')?)?;
                let first = *ring.first()?;
                if ring.last() != Some(&first) {
                    ring.push(first);
                }
                Some(well_known(&polygon(&ring)?, &[("type", "polygon")]))
            }
        }
    }
}

/// Returns the schema of a geometry as well-known binary.
pub(super) fn well_known_schema() -> Schema {
    let text = || Schema::new(Kind::String).into();
    let fields = vec![
        required("wkb", Kind::Bytes),
        nullable("srid", Kind::Int32),
        nullable("extensions", Kind::Map(text(), text())),
    ];
    documented("io.debezium.data.geometry.Geometry", 2, "Geometry", fields)
}

fn documented(name: &'static str, version: i32, doc: &'static str, fields: Vec<Field>) -> Schema {
    let mut schema = Schema::named(Kind::Struct(fields), name).optional(true);
    (schema.version, schema.doc) = (Some(version), Some(doc));
    schema
}

/// Reads `(0,0),(1.5,-2)`.
fn points(text: &str) -> Option<Vec<Point>> {
    let inner = text.strip_prefix('(')?.strip_suffix(')')?;
    let pair = |pair: &str| pair.split_once(',').and_then(|(x, y)| Some((number(x)?, number(y)?)));
    inner.split("),(").map(pair).collect()
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn line_string(points: &[Point]) -> Option<Vec<u8>> {
    let mut wkb = WKB_LINE_STRING.to_vec();
    write_points(&mut wkb, points)?;
    Some(wkb)
}

fn polygon(ring: &[Point]) -> Option<Vec<u8>> {
    let mut wkb = WKB_POLYGON.to_vec();
    wkb.extend(ONE_RING.to_le_bytes());
    write_points(&mut wkb, ring)?;
    Some(wkb)
}

fn write_points(wkb: &mut Vec<u8>, points: &[Point]) -> Option<()> {
    wkb.extend(u32::try_from(points.len()).ok()?.to_le_bytes());
    for (x, y) in points {
        wkb.extend(x.to_le_bytes());
        wkb.extend(y.to_le_bytes());
    }
    Some(())
}

/// Returns a `Geometry` without a reference system, with the `extensions` that well-known binary cannot express.
fn well_known(wkb: &[u8], extensions: &[(&'static str, &'static str)]) -> Value<'static> {
    let extensions = extensions.iter().map(|(name, value)| (Value::str(name), Value::str(value)));
    let wkb = Value::Bytes(Cow::Owned(wkb.to_vec()));
    Value::Struct(vec![wkb, Value::Null, Value::Map(extensions.collect())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_server_does_not_write_is_refused() {
        let cases = [
            (Geometry::Line, "{1,2}"),
            (Geometry::Line, "1,2,3"),
            (Geometry::Circle, "<(1,2)>"),
            (Geometry::Circle, "<(1,x),2>"),
            (Geometry::Segment, "[(1,2)"),
            (Geometry::Box, "(1,2)"),
            (Geometry::Path, "[(1,2))"),
            (Geometry::Path, ""),
            (Geometry::Polygon, "()"),
        ];
        for (geometry, text) in cases {
            assert_eq!(geometry.decode(text), None, "{geometry:?} {text}");
        }
    }
}
