//! The common parts of all envelopes of a connector: the schemas of their blocks and the labels of their
//! fields.

use std::sync::Arc;

use super::{source, transaction};
use connect_data::converter::FieldLabel;
use connect_data::{Field, Kind, Schema};

/// The fields of an envelope, in their order.
const FIELDS: [&str; 8] = ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"];

/// The parts of envelopes that are the same for every table.
#[derive(Debug)]
pub(in crate::change) struct EnvelopeShape {
    pub(in crate::change) labels: [FieldLabel; FIELDS.len()],
    pub(in crate::change) source: Arc<Schema>,
    pub(in crate::change) source_labels: Vec<FieldLabel>,
    pub(in crate::change) transaction: Arc<Schema>,
    pub(in crate::change) op: Arc<Schema>,
    /// The schema of `ts_ms`, `ts_us` and `ts_ns`.
    pub(in crate::change) time: Arc<Schema>,
}

impl EnvelopeShape {
    pub(in crate::change) fn new() -> Self {
        let source = source::schema();
        let source_labels = labels(&source);
        Self {
            labels: FIELDS.map(FieldLabel::new),
            source: Arc::new(source),
            source_labels,
            transaction: Arc::new(transaction::block_schema()),
            op: Arc::new(Schema::new(Kind::String)),
            time: Arc::new(Schema::new(Kind::Int64).optional(true)),
        }
    }

    /// Returns an envelope's fields around rows of this schema.
    pub(in crate::change) fn fields(&self, row: &Arc<Schema>) -> Vec<Field> {
        let schemas =
            [row, row, &self.source, &self.transaction, &self.op, &self.time, &self.time, &self.time];
        FIELDS.into_iter().zip(schemas).map(|(name, schema)| Field::new(name, Arc::clone(schema))).collect()
    }
}

/// Returns the labels of a struct's fields.
fn labels(schema: &Schema) -> Vec<FieldLabel> {
    fields(schema).iter().map(|field| FieldLabel::new(&field.name)).collect()
}

/// Returns the fields of a struct's schema; empty for any other schema.
pub(in crate::change) fn fields(schema: &Schema) -> &[Field] {
    match &schema.kind {
        Kind::Struct(fields) => fields,
        _ => &[],
    }
}
