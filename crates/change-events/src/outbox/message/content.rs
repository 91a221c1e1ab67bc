//! Contents of logical messages.

use std::sync::Arc;

use super::MessageError;
use crate::outbox::expand::{JsonExpansion, Unexpandable, structure};
use connect_data::{Field, Kind, Schema, Value};

/// A message's content: the fields of its JSON object.
#[derive(Debug)]
pub(super) struct Content {
    fields: Vec<Field>,
    values: Vec<Value<'static>>,
}

impl Content {
    /// Parses the content as Debezium's transform does: text after the first JSON value is ignored, and bytes
    /// that are not UTF-8 become replacement characters.
    pub(super) fn read(expansion: JsonExpansion, bytes: &[u8]) -> Result<Self, MessageError> {
        let text = String::from_utf8_lossy(bytes);
        let mut documents = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
        let document = match documents.next() {
            Some(Ok(document)) if text.starts_with('{') => document,
            Some(Ok(_)) => return Err(MessageError::NotObject),
            Some(Err(_)) | None => return Err(MessageError::NotJson),
        };
        let (schema, value) = match structure(expansion, None, &document, text.len()) {
            Ok(Some(structure)) => structure,
            Ok(None) | Err(Unexpandable::Undescribable) => return Err(MessageError::Undescribable),
            Err(Unexpandable::TooLarge) => return Err(MessageError::TooLarge),
        };
        match (schema.kind, value) {
            (Kind::Struct(fields), Value::Struct(values)) => Ok(Self { fields, values }),
            _ => Err(MessageError::NotObject),
        }
    }

    /// Returns a field's schema and value; null fields exist only with `fields.null.include`.
    pub(super) fn get(&self, name: &str) -> Option<(&Arc<Schema>, &Value<'static>)> {
        let index = self.fields.iter().position(|field| field.name == name)?;
        Some((&self.fields.get(index)?.schema, self.values.get(index)?))
    }
}
