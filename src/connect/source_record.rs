//! What stands between the connector and the converters (`org.apache.kafka.connect.source.SourceRecord`).

use std::borrow::Cow;
use std::sync::Arc;

use super::{Schema, Value};

/// A record that is not yet bytes. Transforms change it, converters write it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SourceRecord<'a> {
    /// The topic.
    pub(crate) topic: Cow<'a, str>,
    /// The partition, when something decides it; otherwise the key's hash does.
    pub(crate) partition: Option<i32>,
    /// Record timestamp, in milliseconds since the Unix epoch; without one it is the time of sending.
    pub(crate) timestamp_ms: Option<i64>,
    /// The key.
    pub(crate) key: Datum<'a>,
    /// The value.
    pub(crate) value: Datum<'a>,
    /// The headers, in wire order; a name may occur more than once.
    pub(crate) headers: Vec<DatumHeader<'a>>,
}

/// A value with its schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Datum<'a> {
    /// Without one the value is null, or written as its own kind.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The value.
    pub(crate) value: Value<'a>,
}

/// A header that is not yet bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DatumHeader<'a> {
    /// The header's name.
    pub(crate) name: Cow<'a, str>,
    /// Its value.
    pub(crate) datum: Datum<'a>,
}

impl DatumHeader<'_> {
    /// The same, with a value of its own.
    #[must_use]
    pub(crate) fn into_owned(self) -> DatumHeader<'static> {
        let Datum { schema, value } = self.datum;
        let datum = Datum { schema, value: Value::into_owned(value) };
        DatumHeader { name: self.name.into_owned().into(), datum }
    }
}

impl<'a> Datum<'a> {
    /// Null, without a schema: what a tombstone's value is, and the key of a table without one.
    pub(crate) const NULL: Self = Self { schema: None, value: Value::Null };

    /// A value of this schema.
    #[must_use]
    pub(crate) const fn new(schema: Arc<Schema>, value: Value<'a>) -> Self {
        Self { schema: Some(schema), value }
    }
}
