//! `include.unknown.datatypes`: types that Debezium does not know, as the bytes of their text.

use super::bytes::{encode, schema};
use crate::column::format::Format;
use crate::column::{BinaryHandling, ColumnOptions};
use crate::{Schema, Value};

/// Returns the format and schema of a column of an unknown type, or `None` if such columns are not shown.
pub(in crate::column) fn column(options: &ColumnOptions) -> Option<(Format, Schema)> {
    options.include_unknown.then(|| (Format::Unknown(options.binary), schema(options.binary)))
}

/// Returns the bytes of a text.
pub(in crate::column) fn decode(text: &str, handling: BinaryHandling) -> Value<'_> {
    encode(text.as_bytes().into(), handling)
}
