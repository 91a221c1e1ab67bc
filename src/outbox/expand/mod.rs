//! JSON expansion: payload text becomes a structure, as Debezium's `JsonSchemaData` makes it.

mod schema;
mod value;

use std::sync::Arc;

use crate::connect::option::{Lookup, boolean, one_of};
use crate::connect::{OptionError, Schema, Value};

/// `table.expand.json.payload=true`: JSON text becomes a Connect structure (Debezium's `JsonSchemaData`).
///
/// Where Debezium's structure would lose data or would not fit its own schema (numbers beyond 64 bits, arrays at the
/// top, objects of an array that differ inside), the data is kept here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonExpansion {
    /// `table.json.payload.null.behavior` (ignore)
    pub null: NullBehavior,
    /// `table.json.payload.empty.array.behavior` (ignore)
    pub empty_array: EmptyArrayBehavior,
}

/// `table.json.payload.null.behavior`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullBehavior {
    /// Fields that are null are left out.
    Ignore,
    /// They stay, as optional `BYTES`.
    OptionalBytes,
}

/// `table.json.payload.empty.array.behavior`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyArrayBehavior {
    /// Fields that are empty arrays are left out.
    Ignore,
    /// They stay, as arrays of optional `STRING`.
    OptionalString,
}

/// What became of a payload's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expanded {
    /// A structure.
    Structure { schema: Arc<Schema>, value: Value<'static> },
    /// `[]`, of which no schema can be told; the text stays.
    EmptyArray,
    /// Nothing: it is not an object or an array, or one that no schema describes. The text stays.
    Not,
}

impl JsonExpansion {
    /// Reads the options; `None` when the expansion is off.
    pub(super) fn parse(lookup: Lookup<'_>) -> Result<Option<Self>, OptionError> {
        let nulls = [("ignore", NullBehavior::Ignore), ("optional_bytes", NullBehavior::OptionalBytes)];
        let arrays =
            [("ignore", EmptyArrayBehavior::Ignore), ("optional_string", EmptyArrayBehavior::OptionalString)];
        let null = one_of(lookup, "table.json.payload.null.behavior", &nulls, NullBehavior::Ignore)?;
        let key = "table.json.payload.empty.array.behavior";
        let empty_array = one_of(lookup, key, &arrays, EmptyArrayBehavior::Ignore)?;
        let on = boolean(lookup, "table.expand.json.payload", false)?;
        Ok(on.then_some(Self { null, empty_array }))
    }

    /// Expands the text of a column. What follows the first JSON value is ignored, as Jackson ignores it.
    pub(super) fn expand(self, column: &str, text: &str) -> Expanded {
        if !text.starts_with(['{', '[']) {
            return Expanded::Not;
        }
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let Some(Ok(document)) = documents.next() else { return Expanded::Not };
        let Ok(schema) = schema::infer(self, Some(column), &document) else { return Expanded::Not };
        let Some(schema) = schema else { return Expanded::EmptyArray };
        match value::fit(self, &document, &schema) {
            Ok(value) => Expanded::Structure { schema: Arc::new(schema), value },
            Err(value::Misfit) => Expanded::Not,
        }
    }
}
