//! `geometry` and `geography` of PostGIS. The server's text is extended well-known binary in hexadecimal digits; the
//! value has its bytes and its reference system.

use std::borrow::Cow;

use crate::column::format::{nullable, required};
use crate::column::types::bytes::decode_hex;
use crate::column::types::geometry;
use crate::{Kind, Schema, Value};

/// Bit of the geometry type for a reference system that follows.
const HAS_SRID: u32 = 0x2000_0000;
/// Fewest bytes of a geometry: the byte order, the geometry type, and four more.
const SHORTEST: usize = 9;

/// A type of PostGIS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) enum Postgis {
    Geometry,
    Geography,
}

impl Postgis {
    /// Returns the type with this name.
    pub(in crate::column) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "geometry" => Self::Geometry,
            "geography" => Self::Geography,
            _ => return None,
        })
    }

    /// Returns the schema. Debezium makes that of a `geometry` optional even if the column is NOT NULL.
    pub(in crate::column) fn schema(self) -> Schema {
        match self {
            Self::Geometry => geometry::well_known_schema(),
            Self::Geography => {
                let fields = vec![required("wkb", Kind::Bytes), nullable("srid", Kind::Int32)];
                let name = "io.debezium.data.geometry.Geography";
                Schema { doc: Some("Geography"), ..Schema::named(Kind::Struct(fields), name) }
            }
        }
    }

    /// Reads the hexadecimal digits.
    pub(in crate::column) fn decode(self, text: &str) -> Option<Value<'static>> {
        let wkb = decode_hex(text.as_bytes())?;
        let srid = srid(&wkb)?.map_or(Value::Null, Value::Int32);
        let mut parts = vec![Value::Bytes(Cow::Owned(wkb)), srid];
        if self == Self::Geometry {
            // `extensions` is null, which distinguishes the value from one of PostgreSQL's own types.
            parts.push(Value::Null);
        }
        Some(Value::Struct(parts))
    }
}

/// Returns the reference system of a geometry, if it has one. The outer `None` means that the bytes are too few for a
/// geometry.
fn srid(wkb: &[u8]) -> Option<Option<i32>> {
    let (order, rest) = wkb.get(..SHORTEST)?.split_first()?;
    let (kind, rest) = rest.split_first_chunk()?;
    let (srid, _) = rest.split_first_chunk()?;
    let (kind, srid) = match order {
        0 => (u32::from_be_bytes(*kind), i32::from_be_bytes(*srid)),
        _ => (u32::from_le_bytes(*kind), i32::from_le_bytes(*srid)),
    };
    Some((kind & HAS_SRID != 0).then_some(srid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_of_bytes_are_read() {
        for (digits, expected) in [
            ("0101000020E6100000", Some(Some(4326))),
            ("0020000001000010E6", Some(Some(4326))),
            ("010700000000000000", Some(None)),
            ("0107000000000000", None),
        ] {
            assert_eq!(decode_hex(digits.as_bytes()).and_then(|wkb| srid(&wkb)), expected, "{digits}");
        }
        assert_eq!(Postgis::Geometry.decode("POINT(1 2)"), None);
    }
}
