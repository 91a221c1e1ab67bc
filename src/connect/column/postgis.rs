//! `geometry` and `geography` of PostGIS: the extended well-known binary, whose digits are the text, beside its reference system.

use std::borrow::Cow;

use super::bytes::decode_hex;
use super::format::{nullable, required};
use super::geometry;
use crate::connect::{Kind, Schema, Value};

/// The bit of the type that says that a reference system follows.
const HAS_SRID: u32 = 0x2000_0000;
/// The order of the bytes, the type, and four more.
const SHORTEST: usize = 9;

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Postgis {
    Geometry,
    Geography,
}

impl Postgis {
    /// The type of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "geometry" => Self::Geometry,
            "geography" => Self::Geography,
            _ => return None,
        })
    }

    /// Its schema. Debezium makes that of a `geometry` optional even where the column is NOT NULL.
    pub(super) fn schema(self) -> Schema {
        match self {
            Self::Geometry => geometry::well_known_schema(),
            Self::Geography => {
                let fields = vec![required("wkb", Kind::Bytes), nullable("srid", Kind::Int32)];
                let name = "io.debezium.data.geometry.Geography";
                Schema { doc: Some("Geography"), ..Schema::named(Kind::Struct(fields), name) }
            }
        }
    }

    /// Reads the digits.
    pub(super) fn decode(self, text: &str) -> Option<Value<'static>> {
        let wkb = decode_hex(text.as_bytes())?;
        let srid = srid(&wkb)?.map_or(Value::Null, Value::Int32);
        let mut parts = vec![Value::Bytes(Cow::Owned(wkb)), srid];
        if self == Self::Geometry {
            // What says that it is not one of PostgreSQL's own types.
            parts.push(Value::Null);
        }
        Some(Value::Struct(parts))
    }
}

/// The reference system that is said, if one is; nothing when it cannot be a geometry.
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
