//! Connect's values.

use std::borrow::Cow;

use super::Decimal;

/// A Connect value. It borrows from the receive buffer if the column's text is the value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Null, of any schema.
    Null,
    /// `BOOLEAN`
    Bool(bool),
    /// `INT8`
    Int8(i8),
    /// `INT16`
    Int16(i16),
    /// `INT32`
    Int32(i32),
    /// `INT64`
    Int64(i64),
    /// `FLOAT32`
    Float32(f32),
    /// `FLOAT64`
    Float64(f64),
    /// JSON text that is written unchanged: a number that no Connect type can represent (its schema is `FLOAT64`), or a
    /// whole document (its schema is `STRING`).
    Json(Cow<'a, str>),
    /// `BYTES` with the logical name `org.apache.kafka.connect.data.Decimal`.
    Decimal(Decimal),
    /// Value of Connect's `Date`, `Time` and `Timestamp`: `java.util.Date`, in milliseconds since the Unix epoch.
    Date(i64),
    /// `STRING`
    Str(Cow<'a, str>),
    /// `BYTES`
    Bytes(Cow<'a, [u8]>),
    /// `ARRAY`
    Array(Vec<Self>),
    /// `MAP`, in the order in which it is written.
    Map(Vec<(Self, Self)>),
    /// `STRUCT`: the fields' values, in the schema's order.
    Struct(Vec<Self>),
}

impl<'a> Value<'a> {
    /// Returns a string that borrows the text.
    #[must_use]
    pub const fn str(text: &'a str) -> Self {
        Self::Str(Cow::Borrowed(text))
    }

    /// Reports whether the value is null.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Reports whether the values are equal by Java's `equals`: NaN equals itself, and the two zeros differ.
    #[must_use]
    pub fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float32(one), Self::Float32(other)) => {
                one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
            }
            (Self::Float64(one), Self::Float64(other)) => {
                one.to_bits() == other.to_bits() || one.is_nan() && other.is_nan()
            }
            (Self::Array(ones), Self::Array(others)) | (Self::Struct(ones), Self::Struct(others)) => {
                ones.len() == others.len() && ones.iter().zip(others).all(|(one, other)| one.equals(other))
            }
            (Self::Map(ones), Self::Map(others)) => {
                let same = |((key, value), (other_key, other_value)): (&(Self, Self), &(Self, Self))| {
                    key.equals(other_key) && value.equals(other_value)
                };
                ones.len() == others.len() && ones.iter().zip(others).all(same)
            }
            _ => self == other,
        }
    }

    /// Returns a value that owns its data.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Int8(value) => Value::Int8(value),
            Self::Int16(value) => Value::Int16(value),
            Self::Int32(value) => Value::Int32(value),
            Self::Int64(value) => Value::Int64(value),
            Self::Float32(value) => Value::Float32(value),
            Self::Float64(value) => Value::Float64(value),
            Self::Json(text) => Value::Json(Cow::Owned(text.into_owned())),
            Self::Decimal(value) => Value::Decimal(value),
            Self::Date(millis) => Value::Date(millis),
            Self::Str(text) => Value::Str(Cow::Owned(text.into_owned())),
            Self::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Self::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Self::Map(entries) => Value::Map(
                entries.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
            ),
            Self::Struct(values) => Value::Struct(values.into_iter().map(Value::into_owned).collect()),
        }
    }

    /// Returns the same value, which borrows strings and bytes from this one.
    #[must_use]
    pub fn reborrow(&'a self) -> Self {
        match self {
            Self::Str(text) => Self::Str(Cow::Borrowed(text)),
            Self::Bytes(bytes) => Self::Bytes(Cow::Borrowed(bytes)),
            other => other.clone(),
        }
    }
}
