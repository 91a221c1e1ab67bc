//! Records between the connector and the converters (`org.apache.kafka.connect.source.SourceRecord`).

use std::borrow::Cow;
use std::sync::Arc;

use super::{Schema, Value};

/// A record before its conversion to bytes. Transforms change it, converters write it.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRecord<'a> {
    /// The topic.
    pub topic: Cow<'a, str>,
    /// Partition, if the row or a transform determines it; otherwise the key's hash does.
    pub partition: Option<i32>,
    /// Record timestamp, in milliseconds since the Unix epoch; without one it is the time of sending.
    pub timestamp_ms: Option<i64>,
    /// The key.
    pub key: Datum<'a>,
    /// The value.
    pub value: Datum<'a>,
    /// The headers, in wire order; a name may occur more than once.
    pub headers: Vec<DatumHeader<'a>>,
}

/// A value with its schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Datum<'a> {
    /// Schema of the value. Without one the value is null, or written by its own kind.
    pub schema: Option<Arc<Schema>>,
    /// The value.
    pub value: Value<'a>,
}

/// A header before its conversion to bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct DatumHeader<'a> {
    /// The header's name.
    pub name: Cow<'a, str>,
    /// Value of the header.
    pub datum: Datum<'a>,
}

impl DatumHeader<'_> {
    /// Returns the header with a value that owns its data.
    #[must_use]
    pub fn into_owned(self) -> DatumHeader<'static> {
        let Datum { schema, value } = self.datum;
        let datum = Datum { schema, value: Value::into_owned(value) };
        DatumHeader { name: self.name.into_owned().into(), datum }
    }
}

impl<'a> Datum<'a> {
    /// Null without a schema: the value of a tombstone, and the key of a table without one.
    pub const NULL: Self = Self { schema: None, value: Value::Null };

    /// Returns a value with this schema.
    #[must_use]
    pub const fn new(schema: Arc<Schema>, value: Value<'a>) -> Self {
        Self { schema: Some(schema), value }
    }
}
