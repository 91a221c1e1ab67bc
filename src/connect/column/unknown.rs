//! `include.unknown.datatypes`: types that Debezium knows nothing of, as the bytes of their text.

use super::bytes::{encode, schema};
use super::format::Format;
use super::{BinaryHandling, ColumnOptions};
use crate::connect::{Schema, Value};

/// How a column of an unknown type is read, if it is shown at all.
pub(super) fn column(options: &ColumnOptions) -> Option<(Format, Schema)> {
    options.include_unknown.then(|| (Format::Unknown(options.binary), schema(options.binary)))
}

/// The bytes of a text.
pub(super) fn decode(text: &str, handling: BinaryHandling) -> Value<'_> {
    encode(text.as_bytes().into(), handling)
}
