//! Converters whose schemas a registry keeps: the id that it gave the schema stands before the value.
//!
//! ```text
//!   Schema ──form──▶ text ──registry──▶ SchemaId ┐
//!   Value  ──form──────────────────────▶ body ───┴─▶ 0 · id (4 bytes, big-endian) · body
//! ```
//!
//! Nothing here asks the registry: a schema without a known id is [`ConvertError::Unregistered`], and the one who has
//! asked for the id tells it to [`SchemaIds`] and converts again.

mod avro;
#[cfg(test)]
mod cases;
mod decoder;
mod error;
mod form;
#[cfg(test)]
mod golden;
mod ids;
mod json_schema;
mod options;
mod protobuf;
mod subject;

pub(crate) use decoder::{DecodeError, Decoder, WrittenSchema, split};
pub(crate) use error::SchemaError;
pub(crate) use form::{SchemaText, SchemaType};
pub(crate) use ids::Side;
pub use ids::{Registration, SchemaId, SchemaIds};
pub(crate) use options::{Flavor, RegisteredConverter};

use std::sync::Arc;

use super::struct_writer::StructWriter;
use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::connect::{Schema, Value};
use ids::Meant;

pub(super) use avro::{Writer as AvroWriter, begin_struct};
pub(super) use protobuf::{OpenMessage, Writer as ProtobufWriter};

/// The first byte of everything that the registry's id precedes.
const MAGIC: u8 = 0;

/// Magic byte and id.
const PREFIX_BYTES: usize = 5;

impl RegisteredConverter {
    /// Whether values of this schema can be written: strategies that name the subject after the record need one.
    pub(super) fn accepts(&self, schema: &Schema) -> Result<(), UnsupportedSchema> {
        self.form.accepts(schema)?;
        if !self.subject.needs_record() || self.form.names(schema) {
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
        if value.is_null() && !self.form.writes_null(schema)? {
            return Ok(Encoded::Null);
        }
        self.framed(Meant { schema, shared: None }, into, |out| self.form.write(schema, value, out))
    }

    /// The same with a schema that many values have: its id is found without looking at all of it.
    pub(super) fn convert_shared<'a>(
        &self,
        schema: &Arc<Schema>,
        value: &Value<'_>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        if value.is_null() && !self.form.writes_null(Some(schema))? {
            return Ok(Encoded::Null);
        }
        self.framed(Meant::shared(schema), into, |out| self.form.write(Some(schema), value, out))
    }

    /// Converts what `write` writes, a required record of this schema.
    pub(super) fn convert_fields<'a, E: From<ConvertError>>(
        &self,
        schema: &Arc<Schema>,
        into: &mut Destination<'_>,
        write: impl FnOnce(StructWriter<'_>) -> Result<(), E>,
    ) -> Result<Encoded<'a>, E> {
        self.framed(Meant::shared(schema), into, |out| write(self.form.struct_writer(schema, out)?))
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

    fn id(&self, meant: Meant<'_>, into: &mut Destination<'_>) -> Result<SchemaId, ConvertError> {
        let Meant { schema, shared } = meant;
        if let Some(id) = into.schemas.find(self.side, into.topic, meant) {
            return Ok(id);
        }
        let text = self.form.text(schema)?;
        // Schemas that differ may have one text.
        if let Some(id) = into.schemas.find_text(self.side, into.topic, &text.text) {
            return Ok(id);
        }
        Err(ConvertError::Unregistered(Box::new(Registration {
            side: self.side,
            topic: into.topic.to_owned(),
            subject: self.subject.subject(self.side, into.topic, text.name.as_deref())?,
            schema: shared.cloned().or_else(|| schema.cloned().map(Arc::new)),
            kind: self.form.schema_type(),
            text: text.text,
            ids_max: self.ids_max,
        })))
    }
}
