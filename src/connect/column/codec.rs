use std::sync::Arc;

use super::format::Format;
use super::{ColumnDescription, ColumnOptions, default};
use crate::connect::{Schema, Value};
use crate::pgoutput::ColumnValue;

/// How a column's text becomes a Connect value.
#[derive(Debug, Clone)]
pub struct ColumnCodec {
    schema: Arc<Schema>,
    format: Format,
    type_name: String,
}

/// A type that Debezium does not show either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its type {0} cannot be shown")]
pub struct UnsupportedType(pub String);

/// A column's value that cannot be decoded. The value itself is not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The text is not what the type's output function writes, or beyond what the Connect type holds.
    #[error("the value is not a {0} as the server writes it, or out of range")]
    Malformed(String),
    /// The text is not UTF-8.
    #[error("the value is not UTF-8")]
    NotUtf8,
    /// An UPDATE left a TOASTed value out.
    #[error("the server did not send the value, it is TOASTed and unchanged")]
    UnchangedToast,
    /// The value came in binary, which is not asked for.
    #[error("the value came in binary format")]
    Binary,
}

impl ColumnCodec {
    /// The codec for a column.
    ///
    /// # Errors
    /// When the column's type has no Connect form.
    pub fn new(column: &ColumnDescription, options: &ColumnOptions) -> Result<Self, UnsupportedType> {
        let unsupported = || UnsupportedType(column.kind.name());
        let (format, schema) =
            Format::of(&column.kind, column.type_modifier, options).ok_or_else(unsupported)?;
        let mut schema = schema.optional(!column.not_null);
        schema.default =
            column.default.as_deref().and_then(|text| default::value(&column.kind, &format, text));
        Ok(Self { schema: Arc::new(schema), format, type_name: column.kind.name() })
    }

    /// The schema of the values.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The column's type, as PostgreSQL names it.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Decodes a value. NULL becomes the column's default when it has one, as Connect's `Struct.get` does.
    ///
    /// # Errors
    /// When the value is not text of the column's type.
    pub fn decode<'a>(&'a self, value: ColumnValue<'a>) -> Result<Value<'a>, ColumnError> {
        match text(value)? {
            Some(text) => self.decode_text(text),
            None => Ok(self.schema.default.as_ref().map_or(Value::Null, Value::reborrow)),
        }
    }

    /// Decodes a value. NULL stays NULL, as Connect's typed getters have it (`Struct.getInt32`).
    ///
    /// # Errors
    /// When the value is not text of the column's type.
    pub fn decode_without_default<'a>(&self, value: ColumnValue<'a>) -> Result<Value<'a>, ColumnError> {
        text(value)?.map_or(Ok(Value::Null), |text| self.decode_text(text))
    }

    fn decode_text<'a>(&self, text: &'a str) -> Result<Value<'a>, ColumnError> {
        self.format.decode(text).ok_or_else(|| ColumnError::Malformed(self.type_name.clone()))
    }
}

/// A value's text; `None` is NULL.
pub(super) fn text(value: ColumnValue<'_>) -> Result<Option<&str>, ColumnError> {
    match value {
        ColumnValue::Null => Ok(None),
        ColumnValue::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| ColumnError::NotUtf8),
        ColumnValue::UnchangedToast => Err(ColumnError::UnchangedToast),
        ColumnValue::Binary(_) => Err(ColumnError::Binary),
    }
}
