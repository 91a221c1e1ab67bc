//! `JsonSchemaConverter`: JSON, and JSON Schemas as Confluent's converter writes them.

mod default;
mod schema;

pub(super) use schema::{text, title};

use super::{SchemaError, SchemaText};
use crate::Schema;
use crate::converter::JsonConverter;

/// The converter's own options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JsonSchemaOptions {
    /// Form of the values: `decimal.format` (BASE64), `ignore.default.for.nullables` (false).
    pub(super) values: JsonConverter,
    /// `object.additional.properties` (true): the schemas of records allow properties that they do not name.
    pub(super) additional_properties: bool,
}

impl JsonSchemaOptions {
    /// Reports whether null is written as a JSON value, rather than as Kafka's null.
    pub(super) const fn writes_null(self, schema: &Schema) -> bool {
        schema.optional || schema.default.is_some() && self.values.replace_null_with_default
    }
}
