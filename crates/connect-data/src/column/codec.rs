//! Conversion of a column's text to its Connect value.

use std::sync::Arc;

use super::format::Format;
use super::mapper::Mapping;
use super::{ColumnDescription, ColumnOptions, FailureHandling, Mapper, default};
use crate::{Schema, Value};
use pg_replication::pgoutput::ColumnValue;

/// Conversion of a column's text to a Connect value.
#[derive(Debug, Clone)]
pub struct ColumnCodec {
    schema: Arc<Schema>,
    format: Format,
    type_name: String,
    failure: FailureHandling,
    mapping: Option<Mapping>,
}

/// A column type without a Connect form, which Debezium does not show either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its type {0} cannot be shown")]
pub struct UnsupportedType(pub String);

/// A column value that cannot be decoded. The error does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The text is not what the type's output function writes, or has no form in the Connect type: `NaN` in a decimal,
    /// null in an array of required elements, a number out of range.
    #[error("the value does not fit the type that a {0} becomes, or is not as the server writes it")]
    Malformed(String),
    /// The text is not UTF-8.
    #[error("the value is not UTF-8")]
    NotUtf8,
    /// An UPDATE did not include an unchanged TOASTed value.
    #[error("the server did not send the value, it is TOASTed and unchanged")]
    UnchangedToast,
    /// The value is in binary format, which outboxd does not request.
    #[error("the value came in binary format")]
    Binary,
}

impl ColumnCodec {
    /// Returns the codec of a column, with the rules for columns applied to its schema.
    ///
    /// # Errors
    /// When the column's type has no Connect form.
    pub fn new(
        column: &ColumnDescription,
        options: &ColumnOptions,
        mapper: Option<&Mapper>,
    ) -> Result<Self, UnsupportedType> {
        let unsupported = || UnsupportedType(column.kind.name());
        let (format, schema) =
            Format::of(&column.kind, column.type_modifier, options).ok_or_else(unsupported)?;
        let optional = schema.optional || !column.not_null;
        let mut schema = schema.optional(optional);
        schema.default = default::value(column, &format);
        let mapping = mapper.and_then(|mapper| mapper.bind(column, &mut schema));
        let type_name = column.kind.name();
        Ok(Self { schema: Arc::new(schema), format, type_name, failure: options.failure, mapping })
    }

    /// Returns the schema of the values.
    #[must_use]
    pub const fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns PostgreSQL's name of the column's type.
    #[must_use]
    pub fn type_name(&self) -> &str {
        &self.type_name
    }

    /// Reports whether a rule for columns changes the values.
    #[must_use]
    pub const fn changes_values(&self) -> bool {
        self.mapping.is_some()
    }

    /// Applies the rules for columns to a value that was not decoded by this codec.
    #[must_use]
    pub fn mapped<'a>(&self, value: Value<'a>) -> Value<'a> {
        match &self.mapping {
            Some(mapping) => mapping.apply(value, &self.schema),
            None => value,
        }
    }

    /// Decodes a value. NULL becomes the column's default if it has one, as in Connect's `Struct.get`. A value without
    /// a Connect form becomes the default or null too, unless [`FailureHandling::Fail`] makes it an error.
    ///
    /// # Errors
    /// When the value is not text of the column's type, or has no form.
    pub fn decode<'a>(&'a self, value: ColumnValue<'a>) -> Result<Value<'a>, ColumnError> {
        Ok(match self.decode_without_default(value)? {
            Value::Null => self.schema.default.as_ref().map_or(Value::Null, Value::reborrow),
            value => value,
        })
    }

    /// Decodes a value. NULL stays NULL, as in Connect's typed getters (`Struct.getInt32`).
    ///
    /// # Errors
    /// When the value is not text of the column's type, or has no form.
    pub fn decode_without_default<'a>(&self, value: ColumnValue<'a>) -> Result<Value<'a>, ColumnError> {
        let decoded = match text(value)?.map(|text| self.format.decode(text)) {
            None => Value::Null,
            Some(Some(value)) => value,
            Some(None) if self.failure == FailureHandling::Fail => {
                return Err(ColumnError::Malformed(self.type_name.clone()));
            }
            Some(None) => Value::Null,
        };
        Ok(self.mapped(decoded))
    }

    /// Reports whether a value has no Connect form, so that [`Self::decode`] returns a default, null or an error instead.
    #[must_use]
    pub fn is_replaced(&self, value: ColumnValue<'_>) -> bool {
        self.format.may_lack_a_form()
            && matches!(text(value), Ok(Some(text)) if self.format.decode(text).is_none())
    }
}

/// Returns a value's text, or `None` for NULL.
pub(super) fn text(value: ColumnValue<'_>) -> Result<Option<&str>, ColumnError> {
    match value {
        ColumnValue::Null => Ok(None),
        ColumnValue::Text(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| ColumnError::NotUtf8),
        ColumnValue::UnchangedToast => Err(ColumnError::UnchangedToast),
        ColumnValue::Binary(_) => Err(ColumnError::Binary),
    }
}
