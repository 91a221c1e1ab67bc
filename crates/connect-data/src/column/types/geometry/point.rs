//! `point`.

use std::borrow::Cow;

use crate::column::format::{nullable, required};
use crate::{Kind, Schema, Value};

/// Byte order (little-endian) and geometry type (1) that begin well-known binary.
const WKB_POINT: [u8; 5] = [1, 1, 0, 0, 0];

/// Returns the schema of a `point`.
pub(in crate::column) fn schema() -> Schema {
    let fields = vec![
        required("x", Kind::Float64),
        required("y", Kind::Float64),
        nullable("wkb", Kind::Bytes),
        nullable("srid", Kind::Int32),
    ];
    let mut schema = Schema::named(Kind::Struct(fields), "io.debezium.data.geometry.Point");
    schema.doc = Some("Geometry (POINT)");
    schema
}

/// Reads `(1.5,-2)`.
pub(in crate::column) fn decode(text: &str) -> Option<Value<'static>> {
    let (x, y) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let (x, y): (f64, f64) = (x.parse().ok()?, y.parse().ok()?);
    let mut wkb = WKB_POINT.to_vec();
    wkb.extend(x.to_le_bytes());
    wkb.extend(y.to_le_bytes());
    Some(Value::Struct(vec![
        Value::Float64(x),
        Value::Float64(y),
        Value::Bytes(Cow::Owned(wkb)),
        Value::Null,
    ]))
}
