//! Lengths and scales of columns.

use super::numeric::precision_and_bare_scale;
use crate::column::TypeKind;

/// Added to the length in the modifier of a `varchar` or `bpchar` (`VARHDRSZ`).
const MODIFIER_OFFSET: i32 = 4;
/// Digits of a second's fraction when none are given.
const FULL_PRECISION: i32 = 6;

/// A column's length and scale, as pgjdbc reports them to Debezium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::column) struct Dimensions {
    pub(in crate::column) length: i32,
    pub(in crate::column) scale: i32,
}

impl Dimensions {
    /// Returns the dimensions of a type; those of an array are the dimensions of its elements.
    pub(in crate::column) fn of(kind: &TypeKind, modifier: i32) -> Self {
        match kind {
            TypeKind::Base { name } => base(name, modifier),
            TypeKind::Money { .. } => base("money", modifier),
            TypeKind::Domain { base, modifier: own, .. } => {
                Self::of(base, if modifier >= 0 { modifier } else { *own })
            }
            TypeKind::Array { element } => Self::of(element, modifier),
            TypeKind::Enum { .. } | TypeKind::Other { .. } => dimensions(i32::MAX, 0),
        }
    }
}

const fn dimensions(length: i32, scale: i32) -> Dimensions {
    Dimensions { length, scale }
}

fn base(name: &str, modifier: i32) -> Dimensions {
    match name {
        "bool" | "char" => dimensions(1, 0),
        "int2" => dimensions(5, 0),
        "int4" | "oid" => dimensions(10, 0),
        "int8" => dimensions(19, 0),
        "float4" => dimensions(8, 8),
        "float8" => dimensions(17, 17),
        "numeric" => {
            let (precision, scale) = precision_and_bare_scale(modifier).unwrap_or((131_089, 0));
            dimensions(precision, scale)
        }
        "varchar" | "bpchar" if modifier >= MODIFIER_OFFSET => dimensions(modifier - MODIFIER_OFFSET, 0),
        "bit" => dimensions(modifier.max(1), 0),
        "varbit" if modifier >= 0 => dimensions(modifier, 0),
        "date" => dimensions(13, 0),
        "time" => clock("00:00:00", modifier),
        "timetz" => clock("00:00:00+11:30", modifier),
        "timestamp" => clock("5874897-12-31 00:00:00", modifier),
        "timestamptz" => clock("5874897-12-31 00:00:00+11:30", modifier),
        "interval" => dimensions(49, if modifier < 0 { FULL_PRECISION } else { modifier & 0xFFFF }),
        _ => dimensions(i32::MAX, 0),
    }
}

/// Returns the length of the longest text of a type with a clock, and the number of its fraction digits.
fn clock(without_fraction: &str, modifier: i32) -> Dimensions {
    let scale = if modifier < 0 { FULL_PRECISION } else { modifier };
    let fraction = match scale {
        0 => 0,
        // pgjdbc counts two digits for one.
        1 => 3,
        digits => digits.saturating_add(1),
    };
    let length = i32::try_from(without_fraction.len()).unwrap_or(i32::MAX);
    dimensions(length.saturating_add(fraction), scale)
}
