//! Kafka's converters: each turns Connect values into the bytes that the Java class of the same name writes.

mod binary;
mod cloud_events;
mod header;
mod json;
mod json_schema;
pub mod json_text;
mod options;
pub mod registered;
mod schema_texts;
mod string;
mod struct_writer;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use cloud_events::CloudEvents;
pub use json::{DecimalFormat, JsonConverter};
pub use options::Converters;
pub use struct_writer::{FieldLabel, StructWriter};

use super::source_record::{Datum, DatumHeader};
use super::{Kind, Schema, Value};
use registered::{RegisteredConverter, Registration, SchemaError, SchemaIds};

/// A converter, with its configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Converter {
    /// The default without a named value converter: text and `bytea` as they are, NULL as Kafka's null, all other values as JSON
    /// without schema.
    PayloadBytes,
    /// `org.apache.kafka.connect.storage.StringConverter`
    String,
    /// `org.apache.kafka.connect.storage.SimpleHeaderConverter`
    SimpleHeader,
    /// `org.apache.kafka.connect.json.JsonConverter`
    Json(JsonConverter),
    /// `org.apache.kafka.connect.converters.ByteArrayConverter`
    ByteArray,
    /// `io.debezium.converters.ByteArrayConverter`, with the converter for values that are not Java byte arrays. Only bit strings
    /// are: a `bytea` is a `ByteBuffer`.
    DebeziumByteArray(Box<Self>),
    /// A converter whose schemas are stored in a registry, such as `io.confluent.connect.avro.AvroConverter`.
    Registered(RegisteredConverter),
    /// `io.debezium.converters.BinaryDataConverter`, with the converter for values that are not binary.
    BinaryData(Option<Box<Self>>),
    /// `io.debezium.converters.CloudEventsConverter`
    CloudEvents(CloudEvents),
}

/// Location of a converted value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Encoded<'a> {
    /// Kafka's null.
    Null,
    /// Bytes of the receive buffer, unchanged.
    Borrowed(&'a [u8]),
    /// Range of the scratch space.
    Scratch(Range<usize>),
}

/// Output of a conversion, with the topic and the schema ids that it depends on.
#[derive(Debug)]
pub struct Destination<'d> {
    /// Scratch space; converted values are appended.
    pub scratch: &'d mut Vec<u8>,
    /// Topic of the record, for which schemas are registered.
    pub topic: &'d str,
    /// Ids of the registered schemas.
    pub schemas: &'d mut SchemaIds,
}

/// A schema that a converter cannot write.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{converter} cannot write a {schema}")]
pub struct UnsupportedSchema {
    /// The converter's class, without its package.
    pub converter: &'static str,
    /// The schema's kind.
    pub schema: String,
}

/// A value that cannot be converted. The error does not contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A schema that the converter does not support.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedSchema),
    /// A null for which the schema requires a value.
    #[error("a required value is null and has no default")]
    RequiredNull,
    /// An envelope without a field that a CloudEvent needs, or with a field of another type.
    #[error(
        "CloudEventsConverter cannot use the field {0:?} of the envelope: it is missing or of another type"
    )]
    NoCloudEvent(String),
    /// A CloudEvent header that is missing or of another type.
    #[error("CloudEventsConverter cannot use the header {0:?}: it is missing or of another type")]
    NoCloudEventHeader(String),
    /// A schema that the registry's schema language cannot express.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A schema whose id is not known yet. Request the id, then convert the row again.
    #[error("the schema of subject {} is not registered yet", .0.subject)]
    Unregistered(Box<Registration>),
}

impl Converter {
    /// Checks that values of this schema can be written.
    ///
    /// # Errors
    /// When no value of the schema can be written.
    pub fn accepts(&self, schema: &Schema) -> Result<(), UnsupportedSchema> {
        match self {
            Self::PayloadBytes | Self::String | Self::SimpleHeader | Self::Json(_) | Self::CloudEvents(_) => {
                Ok(())
            }
            Self::ByteArray | Self::BinaryData(None) if schema.kind != Kind::Bytes => {
                Err(UnsupportedSchema { converter: self.name(), schema: schema.kind.to_string() })
            }
            Self::Registered(converter) => converter.accepts(schema),
            Self::BinaryData(Some(delegate)) if schema.kind != Kind::Bytes => delegate.accepts(schema),
            Self::DebeziumByteArray(delegate) if !is_bits(schema) => delegate.accepts(schema),
            Self::ByteArray | Self::DebeziumByteArray(_) | Self::BinaryData(_) => Ok(()),
        }
    }

    /// Converts a value. Text and bytes that are written unchanged remain in their buffer; all other values are appended to the
    /// scratch space. Without a schema the value is text or null.
    ///
    /// # Errors
    /// When the converter does not support the value, or first needs the id of its schema.
    pub fn convert<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'a>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        match self {
            Self::PayloadBytes => binary::payload_bytes(schema, value, into.scratch),
            Self::String => Ok(string::convert(schema, value, into.scratch)),
            Self::SimpleHeader => Ok(header::convert(schema, value, into.scratch)),
            Self::Json(converter) => converter.convert(schema, value, into.scratch),
            Self::Registered(converter) => converter.convert(schema, value, into),
            Self::CloudEvents(events) => events.convert(schema, value, &[], into),
            Self::ByteArray => Ok(binary::bytes(self.name(), schema, value, into.scratch)?),
            Self::BinaryData(Some(delegate)) if !is_binary(schema, value) => {
                delegate.convert(schema, value, into)
            }
            Self::DebeziumByteArray(delegate) if !is_byte_array(schema, value) => {
                delegate.convert(schema, value, into)
            }
            Self::BinaryData(_) | Self::DebeziumByteArray(_) => {
                Ok(binary::bytes(self.name(), schema, value, into.scratch)?)
            }
        }
    }

    /// Converts the value of a record, using its headers if the converter reads them.
    ///
    /// # Errors
    /// As [`Self::convert`].
    pub fn convert_beside<'a>(
        &self,
        value: &Datum<'a>,
        headers: &[DatumHeader<'a>],
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        match (self, &value.schema) {
            (Self::CloudEvents(events), schema) => {
                events.convert(schema.as_deref(), &value.value, headers, into)
            }
            (_, Some(schema)) => self.convert_shared(schema, &value.value, into),
            (_, None) => self.convert(None, &value.value, into),
        }
    }

    /// Converts a value whose schema is shared by many values, so that the schema is written only once.
    ///
    /// # Errors
    /// As [`Self::convert`].
    pub fn convert_shared<'a>(
        &self,
        schema: &Arc<Schema>,
        value: &Value<'a>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        match self {
            Self::Json(json) => json.convert_shared(schema, into, |out| json.write(out, Some(schema), value)),
            Self::Registered(registered) => registered.convert_shared(schema, value, into),
            _ => self.convert(Some(schema), value, into),
        }
    }

    /// Reports whether values of this schema can be written with [`Self::convert_fields`].
    pub const fn takes_fields(&self, schema: &Schema) -> bool {
        let is_record = matches!(schema.kind, Kind::Struct(_)) && !schema.optional;
        is_record && matches!(self, Self::Json(_) | Self::Registered(_))
    }

    /// Converts a required struct whose fields `write` writes one by one.
    ///
    /// # Errors
    /// As `write`, and as [`Self::convert`].
    pub fn convert_fields<E: From<ConvertError>>(
        &self,
        schema: &Arc<Schema>,
        into: &mut Destination<'_>,
        write: impl FnOnce(&mut StructWriter<'_>) -> Result<(), E>,
    ) -> Result<Encoded<'static>, E> {
        let write = |mut writer: StructWriter<'_>| {
            writer.begin(schema);
            write(&mut writer)?;
            writer.end();
            Ok(())
        };
        match self {
            Self::Json(json) => {
                json.convert_shared(schema, into, |out| write(StructWriter::json(*json, out)))
            }
            Self::Registered(registered) => registered.convert_fields(schema, into, write),
            _ => {
                let unsupported =
                    UnsupportedSchema { converter: self.name(), schema: schema.kind.to_string() };
                Err(ConvertError::from(unsupported).into())
            }
        }
    }

    /// Reports whether the output depends on the schema's name and version.
    #[must_use]
    pub fn writes_schemas(&self) -> bool {
        match self {
            Self::Json(converter) => converter.schemas,
            Self::CloudEvents(events) => events.writes_schemas(),
            Self::Registered(_) => true,
            Self::BinaryData(Some(delegate)) | Self::DebeziumByteArray(delegate) => delegate.writes_schemas(),
            _ => false,
        }
    }

    /// Returns the converter that needs a schema registry, if this is one or delegates to one.
    #[must_use]
    pub fn registered(&self) -> Option<&RegisteredConverter> {
        match self {
            Self::Registered(converter) => Some(converter),
            Self::CloudEvents(events) => events.registered(),
            Self::BinaryData(Some(delegate)) | Self::DebeziumByteArray(delegate) => delegate.registered(),
            _ => None,
        }
    }

    /// Reports whether the converter reads the headers of a record, which must then be JSON with schemas.
    pub(super) fn reads_headers(&self) -> bool {
        matches!(self, Self::CloudEvents(events) if events.reads_headers())
    }

    /// Returns the converter's class without its package.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::PayloadBytes => "the payload's bytes",
            Self::String => "StringConverter",
            Self::SimpleHeader => "SimpleHeaderConverter",
            Self::Json(_) => "JsonConverter",
            Self::Registered(converter) => converter.name(),
            Self::ByteArray | Self::DebeziumByteArray(_) => "ByteArrayConverter",
            Self::BinaryData(_) => "BinaryDataConverter",
            Self::CloudEvents(_) => "CloudEventsConverter",
        }
    }
}

fn is_binary(schema: Option<&Schema>, value: &Value<'_>) -> bool {
    match schema {
        Some(schema) => schema.kind == Kind::Bytes,
        None => matches!(value, Value::Bytes(_) | Value::Null),
    }
}

/// Reports whether Debezium's `ByteArrayConverter` writes the value itself.
fn is_byte_array(schema: Option<&Schema>, value: &Value<'_>) -> bool {
    match schema {
        Some(schema) => is_bits(schema) || value.is_null() && schema.kind == Kind::Bytes,
        None => value.is_null(),
    }
}

/// Reports whether Debezium represents values of this schema as byte arrays.
fn is_bits(schema: &Schema) -> bool {
    schema.name() == Some("io.debezium.data.Bits")
}

impl<'a> Encoded<'a> {
    /// Returns the converted bytes, or `None` for Kafka's null.
    #[must_use]
    pub fn resolve(self, scratch: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Null => None,
            Self::Borrowed(bytes) => Some(bytes),
            Self::Scratch(range) => scratch.get(range),
        }
    }
}

/// Appends with `write` and returns the appended range.
fn appended(scratch: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> Encoded<'static> {
    let start = scratch.len();
    write(scratch);
    Encoded::Scratch(start..scratch.len())
}
