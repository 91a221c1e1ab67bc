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

use std::sync::Arc;

use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::connect::{Kind, Schema, Value};
use ids::Meant;

pub(super) use binary::{begin_struct, write_field};

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
        self.framed(Meant { schema, shared: None }, into, |out| self.write(schema, value, out))
    }

    /// The same with a schema that many values have: its id is found without looking at all of it.
    pub(super) fn convert_shared<'a>(
        &self,
        schema: &Arc<Schema>,
        value: &Value<'_>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        if value.is_null() {
            return self.convert(Some(schema), value, into);
        }
        self.framed(Meant::shared(schema), into, |out| self.write(Some(schema), value, out))
    }

    /// Converts what `write` writes, a required record of this schema.
    pub(super) fn convert_fields<'a, E: From<ConvertError>>(
        &self,
        schema: &Arc<Schema>,
        into: &mut Destination<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Encoded<'a>, E> {
        self.framed(Meant::shared(schema), into, write)
    }

    /// What `write` writes, with the schema's id before it.
    ///
    /// The value comes first: one that cannot be written must not leave its schema in the registry.
    fn framed<'a, E: From<ConvertError>>(
        &self,
        meant: Meant<'_>,
        into: &mut Destination<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Encoded<'a>, E> {
        let start = into.scratch.len();
        into.scratch.resize(start.saturating_add(PREFIX_BYTES), MAGIC);
        let written = write(into.scratch).and_then(|()| self.id(meant, into).map_err(E::from));
        let SchemaId(id) = written.inspect_err(|_| into.scratch.truncate(start))?;
        if let Some(place) = into.scratch.get_mut(start.saturating_add(1)..start.saturating_add(PREFIX_BYTES))
        {
            place.copy_from_slice(&id.to_be_bytes());
        }
        Ok(Encoded::Scratch(start..into.scratch.len()))
    }

    fn write(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        match schema {
            None => binary::write_without_schema(out, value),
            Some(schema) if self.is_bare(schema) => binary::write_bare(out, value),
            Some(schema) if self.text.is_lone_record(schema) => binary::write_branch(out, schema, value),
            Some(schema) => binary::write(out, schema, value),
        }
    }

    /// Confluent's serializer writes required bytes without their length.
    fn is_bare(&self, schema: &Schema) -> bool {
        self.flavor == Flavor::Confluent && schema.kind == Kind::Bytes && !schema.optional
    }

    fn id(&self, meant: Meant<'_>, into: &mut Destination<'_>) -> Result<SchemaId, ConvertError> {
        let Meant { schema, shared } = meant;
        if let Some(id) = into.schemas.find(self.side, into.topic, meant) {
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
            schema: shared.cloned().or_else(|| schema.cloned().map(Arc::new)),
            text: text.json,
            ids_max: self.ids_max,
        })))
    }
}
