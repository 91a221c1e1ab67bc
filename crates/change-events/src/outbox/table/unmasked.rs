//! Columns that should be masked and are not.

use connect_data::column::{ColumnCodec, Mapper};

/// A column that should be masked and is not: Debezium masks character types and enumerations only.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "column \"{column}\" of table {table} is not masked: its type is {type_name}, and column.mask.* masks text only"
)]
pub struct Unmasked {
    table: String,
    column: String,
    type_name: String,
}

impl Unmasked {
    pub(in crate::outbox) fn of(
        table: &str,
        column: &str,
        codec: &ColumnCodec,
        mapper: Option<&Mapper>,
    ) -> Option<Self> {
        let is_unmasked = mapper.is_some_and(Mapper::masks) && !codec.changes_values();
        is_unmasked.then(|| Self {
            table: table.to_owned(),
            column: column.to_owned(),
            type_name: codec.type_name().to_owned(),
        })
    }
}
