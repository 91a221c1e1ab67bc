use std::sync::Arc;

use super::format::Format;
use super::mapper::Mapping;
use super::{ColumnDescription, ColumnOptions, FailureHandling, Mapper, default};
use crate::connect::{Schema, Value};
use crate::pgoutput::ColumnValue;

/// How a column's text becomes a Connect value.
#[derive(Debug, Clone)]
pub struct ColumnCodec {
    schema: Arc<Schema>,
    format: Format,
    type_name: String,
    failure: FailureHandling,
    mapping: Option<Mapping>,
}

/// A type that Debezium does not show either.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its type {0} cannot be shown")]
pub struct UnsupportedType(pub String);

/// A column's value that cannot be decoded. The value itself is not told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The text is not what the type's output function writes, or has no form in the Connect type: `NaN` in a decimal,
    /// null in an array of required elements, what is out of its range.
    #[error("the value does not fit the type that a {0} becomes, or is not as the server writes it")]
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
    /// The codec for a column, with what the rules for columns make of it.
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

    /// Whether a rule for columns changes the values.
    #[must_use]
    pub const fn changes_values(&self) -> bool {
        self.mapping.is_some()
    }

    /// What the rules for columns make of a value that is not decoded here.
    #[must_use]
    pub(crate) fn mapped<'a>(&self, value: Value<'a>) -> Value<'a> {
        match &self.mapping {
            Some(mapping) => mapping.apply(value, &self.schema),
            None => value,
        }
    }

    /// Decodes a value. NULL becomes the column's default when it has one, as Connect's `Struct.get` does; so does a
    /// value without a form, unless that is an error.
    ///
    /// # Errors
    /// When the value is not text of the column's type, or has no form.
    pub fn decode<'a>(&'a self, value: ColumnValue<'a>) -> Result<Value<'a>, ColumnError> {
        Ok(match self.decode_without_default(value)? {
            Value::Null => self.schema.default.as_ref().map_or(Value::Null, Value::reborrow),
            value => value,
        })
    }

    /// Decodes a value. NULL stays NULL, as Connect's typed getters have it (`Struct.getInt32`).
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

    /// Whether a value has no form: the one case in which [`Self::decode`] gives what the row does not hold.
    #[must_use]
    pub fn is_replaced(&self, value: ColumnValue<'_>) -> bool {
        self.format.may_lack_a_form()
            && matches!(text(value), Ok(Some(text)) if self.format.decode(text).is_none())
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
