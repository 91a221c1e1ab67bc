//! Values that contain the payload and further columns.

use std::borrow::Cow;
use std::sync::Arc;

use super::{BoundColumn, NamedColumn};
use connect_data::{Field, Kind, Schema, Value};

/// Name of the payload's field; Debezium has no option for it.
pub(in crate::outbox) const PAYLOAD: &str = "payload";

/// A value that contains the payload and further columns.
#[derive(Debug)]
pub(in crate::outbox) struct Envelope {
    /// The further columns, with their fields' names.
    pub(in crate::outbox) columns: Vec<NamedColumn>,
    /// The struct's schema without the parts that depend on the row.
    plain: Schema,
}

impl Envelope {
    pub(in crate::outbox) fn new(payload: &BoundColumn, columns: Vec<NamedColumn>) -> Self {
        let mut fields = vec![Field::new(PAYLOAD, Arc::clone(payload.codec.schema()))];
        let further = columns
            .iter()
            .map(|further| Field::new(&further.name, Arc::clone(further.column.codec.schema())));
        fields.extend(further);
        Self { columns, plain: Schema::new(Kind::Struct(fields)) }
    }

    /// Returns the schema for values without a schema name and version, whose payload has the column's own
    /// schema.
    pub(in crate::outbox) const fn plain_schema(&self) -> &Schema {
        &self.plain
    }

    /// Returns the schema of one row's value. Debezium caches the schema, so all aggregate types have the
    /// first one's name; here each has its own.
    pub(in crate::outbox) fn schema(
        &self,
        name: String,
        version: Option<i32>,
        payload: &Arc<Schema>,
    ) -> Schema {
        let mut schema = self.plain.clone();
        if let Kind::Struct(fields) = &mut schema.kind
            && let Some(first) = fields.first_mut()
        {
            first.schema = Arc::clone(payload);
        }
        schema.name = Some(Cow::Owned(name));
        schema.version = version;
        schema
    }

    /// Sets the schemas of the further columns to those after the transforms before the router.
    pub(in crate::outbox) fn take_schemas<'s>(
        schema: &mut Schema,
        further: impl Iterator<Item = &'s Arc<Schema>>,
    ) {
        let Kind::Struct(fields) = &mut schema.kind else { return };
        for (field, further) in fields.iter_mut().skip(1).zip(further) {
            field.schema = Arc::clone(further);
        }
    }

    /// Returns the struct of the payload and the further columns.
    pub(in crate::outbox) fn value<'a>(
        payload: Value<'a>,
        further: impl Iterator<Item = Value<'a>>,
    ) -> Value<'a> {
        Value::Struct(std::iter::once(payload).chain(further).collect())
    }
}
