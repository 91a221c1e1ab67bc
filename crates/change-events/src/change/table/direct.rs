//! Direct serialization: from a row to bytes, without a tree of values in between. It is possible if the
//! transforms only change the topic's name and both converters accept a struct field by field.

use smallvec::SmallVec;

use super::{ChangeTable, Event, Image};
use crate::change::context::ChangeContext;
use crate::change::envelope::shape;
use crate::change::envelope::source::Sequence;
use crate::change::record::{ChangeRecords, Converted, convert};
use crate::outbox::RouteError;
use connect_data::Value;
use connect_data::converter::{ConvertError, Destination, Encoded, StructWriter};

/// Reason why a record is not written.
enum Failed {
    Row(RouteError),
    Convert(ConvertError),
}

impl From<ConvertError> for Failed {
    fn from(error: ConvertError) -> Self {
        Self::Convert(error)
    }
}

impl From<RouteError> for Failed {
    fn from(error: RouteError) -> Self {
        Self::Row(error)
    }
}

impl ChangeTable {
    /// Writes an event, and its tombstone if it has one.
    pub(super) fn write<'a>(
        &'a self,
        topic: &'a str,
        event: &Event<'_, 'a>,
        place: &Value<'_>,
        at: &ChangeContext,
        records: &mut ChangeRecords<'a>,
        into: &mut Destination<'_>,
    ) -> Result<(), RouteError> {
        let mut into = Destination { scratch: into.scratch, topic, schemas: into.schemas };
        let key = self.write_key(event.key, &mut into);
        let key = key.map_err(|failed| self.failed("key.converter", failed))?;
        let value = self.connector.converters.value.convert_fields(&self.envelope, &mut into, |writer| {
            self.write_envelope(event, place, at, writer)
        });
        let value = value.map_err(|failed| self.failed("value.converter", failed))?;
        let mut headers = SmallVec::new();
        if let Some((name, key)) = &event.header {
            let converter = &self.connector.converters.header;
            let bytes = convert("header.converter", converter, &self.key_datum(key.clone()), &mut into);
            headers.push(((*name).into(), bytes.map_err(|error| self.inconvertible(error))?));
        }
        headers.extend(self.connector.converted_headers());
        let timestamp_ms = at.now_us.div_euclid(1_000);
        let record = Converted { topic: topic.into(), partition: None, timestamp_ms, key, value, headers };
        let tombstone = event.has_tombstone.then(|| record.without_value());
        records.add(record);
        if let Some(tombstone) = tombstone {
            records.add(tombstone);
        }
        Ok(())
    }

    fn write_key<'a>(
        &'a self,
        image: Option<Image<'_, 'a>>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'static>, Failed> {
        let Some((key, Image { row, old })) = self.key.as_ref().zip(image) else {
            return Ok(Encoded::Null);
        };
        self.connector.converters.key.convert_fields(&key.schema, into, |writer| {
            for column in &key.columns {
                let value = self.value(column, row, old)?;
                writer.field(&column.label, column.codec.schema(), &value)?;
            }
            if let Some(added) = &key.added {
                writer.field(&added.label, &added.schema, &Value::str(&added.content))?;
            }
            Ok(())
        })
    }

    fn write_envelope<'a>(
        &'a self,
        event: &Event<'_, 'a>,
        place: &Value<'_>,
        at: &ChangeContext,
        writer: &mut StructWriter<'_>,
    ) -> Result<(), Failed> {
        let shape = &self.connector.shape;
        let [before, after, source, transaction, op, ts_ms, ts_us, ts_ns] = &shape.labels;
        writer.label(before);
        self.write_row(event.before, writer)?;
        writer.label(after);
        self.write_row(event.after, writer)?;
        writer.label(source);
        self.write_source(at, writer)?;
        writer.field(transaction, &shape.transaction, place)?;
        writer.field(op, &shape.op, &Value::str(event.op))?;
        writer.field(ts_ms, &shape.time, &Value::Int64(at.now_us.div_euclid(1_000)))?;
        writer.field(ts_us, &shape.time, &Value::Int64(at.now_us))?;
        writer.field(ts_ns, &shape.time, &Value::Int64(at.now_us.saturating_mul(1_000)))?;
        Ok(())
    }

    fn write_row<'a>(
        &'a self,
        image: Option<Image<'_, 'a>>,
        writer: &mut StructWriter<'_>,
    ) -> Result<(), Failed> {
        let Some(Image { row, old }) = image else { return Ok(writer.value(&self.row, &Value::Null)?) };
        writer.begin(&self.row);
        for column in &self.columns {
            let value = self.value(column, row, old)?;
            writer.field(&column.label, column.codec.schema(), &value)?;
        }
        writer.end();
        Ok(())
    }

    fn write_source(&self, at: &ChangeContext, writer: &mut StructWriter<'_>) -> Result<(), Failed> {
        let shape = &self.connector.shape;
        let sequence = Sequence::of(at);
        let values = self.source.values(at, sequence.text());
        writer.begin(&shape.source);
        for ((label, field), value) in
            shape.source_labels.iter().zip(shape::fields(&shape.source)).zip(&values)
        {
            writer.field(label, &field.schema, value)?;
        }
        writer.end();
        Ok(())
    }

    fn failed(&self, option: &'static str, failed: Failed) -> RouteError {
        match failed {
            Failed::Row(error) => error,
            Failed::Convert(source) => {
                RouteError::Convert { table: self.name.clone(), column: "*".to_owned(), option, source }
            }
        }
    }
}
