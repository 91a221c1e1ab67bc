//! `AvroConverter`: Avro's binary encoding behind the id that a schema registry gave the schema.
//!
//! ```text
//!   Schema ──schema──▶ text ──registry──▶ SchemaId ┐
//!   Value  ──binary──────────────────────▶ body ───┴─▶ 0 · id (4 bytes, big-endian) · body
//! ```
//!
//! Nothing here asks the registry: a schema without a known id is [`ConvertError::Unregistered`], and the one who has
//! asked for the id tells it to [`SchemaIds`] and converts again.

mod binary;
#[cfg(test)]
mod cases;
mod ids;
mod name;
mod options;
mod properties;
mod schema;
mod subject;
#[cfg(test)]
mod tests;

pub(crate) use ids::Side;
pub use ids::{Registration, SchemaId, SchemaIds};
pub(crate) use options::{AvroConverter, Flavor};
pub(crate) use schema::{AvroSchemaError, SchemaText};
#[cfg(test)]
pub(crate) use subject::SubjectNameStrategy;

use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::connect::{Kind, Schema, Value};

/// The first byte of everything that the registry's id precedes.
const MAGIC: u8 = 0;

/// Magic byte and id.
const PREFIX_BYTES: usize = 5;

impl AvroConverter {
    /// Whether values of this schema can be written: strategies that name the subject after the record need one.
    pub(super) fn accepts(&self, schema: &Schema) -> Result<(), UnsupportedSchema> {
        if self.text.is_lone_record(schema) || !self.subject.needs_record() {
            return Ok(());
        }
        Err(UnsupportedSchema { converter: self.subject.name(), schema: schema.kind.to_string() })
    }

    pub(super) fn convert<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        if value.is_null() {
            return match schema {
                Some(Schema { optional: false, .. }) => Err(ConvertError::RequiredNull),
                _ => Ok(Encoded::Null),
            };
        }
        let start = into.scratch.len();
        let written = self.write(schema, value, into);
        if written.is_err() {
            into.scratch.truncate(start);
        }
        written.map(|()| Encoded::Scratch(start..into.scratch.len()))
    }

    /// The value first: one that cannot be written must not leave its schema in the registry.
    fn write(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        into: &mut Destination<'_>,
    ) -> Result<(), ConvertError> {
        let start = into.scratch.len();
        into.scratch.resize(start.saturating_add(PREFIX_BYTES), MAGIC);
        match schema {
            None => binary::write_without_schema(into.scratch, value)?,
            Some(schema) if self.is_bare(schema) => binary::write_bare(into.scratch, value)?,
            Some(schema) if self.text.is_lone_record(schema) => {
                binary::write_branch(into.scratch, schema, value)?;
            }
            Some(schema) => binary::write(into.scratch, schema, value)?,
        }
        let SchemaId(id) = self.id(schema, into)?;
        if let Some(place) = into.scratch.get_mut(start.saturating_add(1)..start.saturating_add(PREFIX_BYTES))
        {
            place.copy_from_slice(&id.to_be_bytes());
        }
        Ok(())
    }

    /// Confluent's serializer writes required bytes without their length.
    fn is_bare(&self, schema: &Schema) -> bool {
        self.flavor == Flavor::Confluent && schema.kind == Kind::Bytes && !schema.optional
    }

    fn id(&self, schema: Option<&Schema>, into: &mut Destination<'_>) -> Result<SchemaId, ConvertError> {
        if let Some(id) = into.schemas.find(self.side, into.topic, schema) {
            return Ok(id);
        }
        let text = SchemaText::of(schema, self.text)?;
        // A schema that equals no schema, such as one with the default NaN, is found by its text.
        if let Some(id) = into.schemas.find_text(self.side, into.topic, &text.json) {
            return Ok(id);
        }
        Err(ConvertError::Unregistered(Box::new(Registration {
            side: self.side,
            topic: into.topic.to_owned(),
            subject: self.subject.subject(self.side, into.topic, text.record.as_ref())?,
            schema: schema.cloned(),
            text: text.json,
            ids_max: self.ids_max,
        })))
    }
}
