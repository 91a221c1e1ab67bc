//! Truncated, masked and hashed columns.

use std::borrow::Cow;

use super::types::dimensions::Dimensions;
use super::{ColumnDescription, MaskHash, TypeKind};
use crate::{Kind, Schema, Value};

/// A change to a column's values and to its schema (Debezium's `ColumnMapper`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mapper {
    /// `column.truncate.to.N.chars`: text and `bytea` cut to this number of UTF-16 units or bytes.
    Truncate(usize),
    /// `column.mask.with.N.chars`: this number of asterisks instead of a text, NULL included.
    Mask(usize),
    /// `column.mask.hash.*`: the hash of a text.
    Hash(MaskHash),
    /// `column.propagate.source.type`, `datatype.propagate.source.type`: the column's type in its schema.
    PropagateType,
}

/// A mapper bound to the values of one column.
#[derive(Debug, Clone)]
pub(super) enum Mapping {
    Truncate(usize),
    Mask(String),
    /// Hash, cut to the column's length.
    Hash(MaskHash, usize),
}

impl Mapper {
    /// Reports whether the mapper hides values.
    #[must_use]
    pub const fn masks(&self) -> bool {
        matches!(self, Self::Mask(_) | Self::Hash(_))
    }

    /// Changes the schema of a column, and returns the mapping of its values if they change.
    pub(super) fn bind(&self, column: &ColumnDescription, schema: &mut Schema) -> Option<Mapping> {
        let Dimensions { length, scale } = Dimensions::of(&column.kind, column.type_modifier);
        let length_max = usize::try_from(length).unwrap_or(usize::MAX);
        match self {
            Self::Truncate(max) => {
                if length_max <= *max {
                    return None;
                }
                schema.parameters.push(("truncateLength", max.to_string()));
                Some(Mapping::Truncate(*max))
            }
            Self::Mask(count) => {
                schema.parameters.push(("masked", "true".to_owned()));
                is_maskable(&column.kind).then(|| Mapping::Mask("*".repeat(*count)))
            }
            Self::Hash(hash) => {
                schema.parameters.push(("masked", "true".to_owned()));
                is_maskable(&column.kind).then(|| Mapping::Hash(hash.clone(), length_max))
            }
            Self::PropagateType => {
                schema.parameters.extend([
                    ("__debezium.source.column.type", column.driver_type_name().to_uppercase()),
                    ("__debezium.source.column.length", length.to_string()),
                    ("__debezium.source.column.scale", scale.to_string()),
                    ("__debezium.source.column.name", column.name.clone()),
                ]);
                None
            }
        }
    }
}

/// Reports whether pgjdbc calls the type a character type. Debezium masks no other type, not even `citext`, `json`,
/// `uuid` or `xml`.
fn is_maskable(kind: &TypeKind) -> bool {
    match kind.underlying() {
        TypeKind::Base { name } => ["text", "varchar", "bpchar", "char", "name"].contains(&name.as_str()),
        TypeKind::Enum { .. } => true,
        TypeKind::Money { .. }
        | TypeKind::Domain { .. }
        | TypeKind::Array { .. }
        | TypeKind::Other { .. } => false,
    }
}

impl Mapping {
    pub(super) fn apply<'a>(&self, value: Value<'a>, schema: &Schema) -> Value<'a> {
        match (self, value) {
            (Self::Mask(mask), _) => Value::Str(Cow::Owned(mask.clone())),
            (Self::Hash(hash, length), Value::Str(text)) => {
                let digits = hash.digits(&text);
                Value::Str(Cow::Owned(digits.chars().take(*length).collect()))
            }
            (Self::Truncate(max), Value::Str(text)) => Value::Str(truncated(text, *max)),
            // Bits are bytes too, and are not truncated.
            (Self::Truncate(max), Value::Bytes(bytes))
                if schema.kind == Kind::Bytes && schema.name.is_none() =>
            {
                match bytes.get(..*max) {
                    Some(head) => Value::Bytes(Cow::Owned(head.to_vec())),
                    None => Value::Bytes(bytes),
                }
            }
            (_, value) => value,
        }
    }
}

/// Cuts a text to at most `max` UTF-16 units. A character beyond U+FFFF at the limit is dropped, where Java would store
/// half of it.
fn truncated(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    let mut units = 0usize;
    let end = text.char_indices().find_map(|(at, character)| {
        units += character.len_utf16();
        (units > max).then_some(at)
    });
    match (end, text) {
        (None, text) => text,
        (Some(end), Cow::Borrowed(text)) => Cow::Borrowed(text.get(..end).unwrap_or(text)),
        (Some(end), Cow::Owned(mut text)) => {
            text.truncate(end);
            Cow::Owned(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters() {
        let cases = [("abc", 3, "abc"), ("abc", 2, "ab"), ("a😀b", 2, "a"), ("a😀b", 3, "a😀"), ("é", 0, "")];
        for (text, max, expected) in cases {
            assert_eq!(truncated(Cow::Borrowed(text), max), expected, "{text} {max}");
            assert_eq!(truncated(Cow::Owned(text.to_owned()), max), expected, "{text} {max}");
        }
    }
}
