//! Connect's schemas.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::Value;

/// Type of a value, without its logical name.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// `BOOLEAN`
    Boolean,
    /// `INT8`
    Int8,
    /// `INT16`
    Int16,
    /// `INT32`
    Int32,
    /// `INT64`
    Int64,
    /// `FLOAT32`
    Float32,
    /// `FLOAT64`
    Float64,
    /// `STRING`
    String,
    /// `BYTES`
    Bytes,
    /// `ARRAY`, with the schema of its elements.
    Array(Arc<Schema>),
    /// `MAP`, with the schemas of its keys and its values.
    Map(Arc<Schema>, Arc<Schema>),
    /// `STRUCT`, with its fields in order.
    Struct(Vec<Field>),
    /// In place of the schema of elements, keys or values that have no common type (`SchemaBuilder.arrayOfNull`).
    Untyped,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// The field's name.
    pub name: String,
    /// Schema of the field.
    pub schema: Arc<Schema>,
}

/// A Connect schema (`org.apache.kafka.connect.data.ConnectSchema`).
#[derive(Debug, Clone)]
pub struct Schema {
    /// Type of the values.
    pub kind: Kind,
    /// True if null is a value.
    pub optional: bool,
    /// The logical name, such as `io.debezium.data.Json`.
    pub name: Option<Cow<'static, str>>,
    /// The version of the logical type.
    pub version: Option<i32>,
    /// Documentation that travels with the schema.
    pub doc: Option<&'static str>,
    /// Parameters of the logical type, in the order in which they are written.
    pub parameters: Vec<(&'static str, String)>,
    /// Value that replaces null.
    pub default: Option<Value<'static>>,
}

/// Equality as in Java: a schema with the default NaN equals itself.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        let Self { kind, optional, name, version, doc, parameters, default } = self;
        let same_default = match (default, &other.default) {
            (Some(default), Some(other)) => default.equals(other),
            (None, None) => true,
            _ => false,
        };
        same_default
            && *optional == other.optional
            && *name == other.name
            && *version == other.version
            && *doc == other.doc
            && *parameters == other.parameters
            && *kind == other.kind
    }
}

impl Schema {
    /// Returns a required schema without a name.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        Self {
            kind,
            optional: false,
            name: None,
            version: None,
            doc: None,
            parameters: Vec::new(),
            default: None,
        }
    }

    /// Returns a required schema of one of Debezium's or Connect's logical types, version 1.
    #[must_use]
    pub const fn named(kind: Kind, name: &'static str) -> Self {
        let name = Some(Cow::Borrowed(name));
        Self {
            kind,
            optional: false,
            name,
            version: Some(1),
            doc: None,
            parameters: Vec::new(),
            default: None,
        }
    }

    /// Returns the schema with one more parameter.
    #[must_use]
    pub fn with_parameter(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        self.parameters.push((name, value.to_string()));
        self
    }

    /// Returns the schema, made optional or required.
    #[must_use]
    pub const fn optional(mut self, optional: bool) -> Self {
        self.optional = optional;
        self
    }

    /// Returns the logical name, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
}

impl Field {
    /// Returns a field with this name and schema.
    #[must_use]
    pub fn new(name: impl Into<String>, schema: Arc<Schema>) -> Self {
        Self { name: name.into(), schema }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "BOOLEAN",
            Self::Int8 => "INT8",
            Self::Int16 => "INT16",
            Self::Int32 => "INT32",
            Self::Int64 => "INT64",
            Self::Float32 => "FLOAT32",
            Self::Float64 => "FLOAT64",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Array(_) => "ARRAY",
            Self::Map(..) => "MAP",
            Self::Struct(_) => "STRUCT",
            Self::Untyped => "value without a type",
        })
    }
}
