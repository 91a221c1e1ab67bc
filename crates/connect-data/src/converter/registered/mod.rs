//! Converters whose schemas are stored in a registry: the id of the schema precedes the value.
//!
//! ```text
//!   Schema ──form──▶ text ──registry──▶ SchemaId ┐
//!   Value  ──form──────────────────────▶ body ───┴─▶ 0 · id (4 bytes, big-endian) · body
//! ```
//!
//! This module does not contact the registry: a schema without a known id is a [`ConvertError::Unregistered`]. The caller
//! then requests the id, adds it to [`SchemaIds`] and converts again.

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

pub use decoder::{DecodeError, Decoder, WrittenSchema, split};
pub use error::SchemaError;
pub use form::{SchemaText, SchemaType};
pub use ids::{Registration, SchemaId, SchemaIds, Side};
pub use options::{Flavor, RegisteredConverter};

use std::sync::Arc;

use super::struct_writer::StructWriter;
use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::{Schema, Value};
use ids::Meant;

pub(super) use avro::{Writer as AvroWriter, begin_struct};
pub(super) use protobuf::{OpenMessage, Writer as ProtobufWriter};

/// First byte of every value with a schema id.
const MAGIC: u8 = 0;

/// Length of the magic byte and the id.
const PREFIX_BYTES: usize = 5;

impl RegisteredConverter {
    /// Checks that values of this schema can be written. Strategies that name the subject after the record require a named
    /// record.
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

    /// Converts a value whose schema is shared by many values: most often its id is found by the schema's address.
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

    /// Converts a required record of this schema, whose fields `write` writes.
    pub(super) fn convert_fields<'a, E: From<ConvertError>>(
        &self,
        schema: &Arc<Schema>,
        into: &mut Destination<'_>,
        write: impl FnOnce(StructWriter<'_>) -> Result<(), E>,
    ) -> Result<Encoded<'a>, E> {
        self.framed(Meant::shared(schema), into, |out| write(self.form.struct_writer(schema, out)?))
    }

    /// Appends the schema's id and the output of `write`.
    ///
    /// The value is written first, so that a value that cannot be written does not leave its schema in the registry.
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
        // Different Connect schemas can have the same text.
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
