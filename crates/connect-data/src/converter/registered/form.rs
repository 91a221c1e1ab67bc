//! The three encodings, and the texts of their schemas.

use super::avro::{self, TextOptions};
use super::json_schema::{self, JsonSchemaOptions};
use super::options::Flavor;
use super::protobuf::{self, ProtobufOptions};
use super::{ConvertError, UnsupportedSchema};
use crate::converter::struct_writer::StructWriter;
use crate::{Schema, Value};

/// Encoding of values and their schemas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `AvroConverter`
    Avro(Flavor, TextOptions, avro::Writer),
    /// `JsonSchemaConverter`
    JsonSchema(JsonSchemaOptions),
    /// `ProtobufConverter`
    Protobuf(ProtobufOptions),
}

/// Language of a schema's text, as registries name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaType {
    /// `AVRO`
    Avro,
    /// `JSON`
    Json,
    /// `PROTOBUF`
    Protobuf,
}

/// A schema as the registry stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaText {
    /// Text of the schema.
    pub text: String,
    /// Name of the record, if there is one.
    pub name: Option<String>,
}

impl SchemaType {
    /// Returns the language with this name. Registries omit the name of Avro.
    #[must_use]
    pub fn of(name: Option<&str>) -> Option<Self> {
        let all = [Self::Avro, Self::Json, Self::Protobuf];
        name.map_or(Some(Self::Avro), |name| all.into_iter().find(|kind| kind.name() == name))
    }

    /// Returns the name used in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avro => "AVRO",
            Self::Json => "JSON",
            Self::Protobuf => "PROTOBUF",
        }
    }
}

impl Form {
    /// Returns the converter's class without its package.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Avro(..) => "AvroConverter",
            Self::JsonSchema(_) => "JsonSchemaConverter",
            Self::Protobuf(_) => "ProtobufConverter",
        }
    }

    pub(super) const fn schema_type(self) -> SchemaType {
        match self {
            Self::Avro(..) => SchemaType::Avro,
            Self::JsonSchema(_) => SchemaType::Json,
            Self::Protobuf(_) => SchemaType::Protobuf,
        }
    }

    /// Checks that values of this schema can be written.
    pub(super) fn accepts(self, schema: &Schema) -> Result<(), UnsupportedSchema> {
        match self {
            Self::Avro(..) | Self::JsonSchema(_) => Ok(()),
            Self::Protobuf(_) => protobuf::accepts(schema),
        }
    }

    /// Reports whether the text of this schema has a name.
    pub(super) fn names(self, schema: &Schema) -> bool {
        match self {
            Self::Avro(_, text, _) => text.is_lone_record(schema),
            Self::JsonSchema(_) => json_schema::title(schema).is_some(),
            Self::Protobuf(_) => true,
        }
    }

    /// Reports whether null is written as a value, rather than as Kafka's null.
    pub(super) fn writes_null(self, schema: Option<&Schema>) -> Result<bool, ConvertError> {
        match (self, schema) {
            (_, None) | (Self::Protobuf(_), _) => Ok(false),
            (Self::Avro(..), Some(Schema { optional: false, .. })) => Err(ConvertError::RequiredNull),
            (Self::Avro(..), Some(_)) => Ok(false),
            (Self::JsonSchema(options), Some(schema)) => Ok(options.writes_null(schema)),
        }
    }

    /// Appends a value.
    pub(super) fn write(
        self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), ConvertError> {
        match (self, schema) {
            (Self::Avro(flavor, text, writer), schema) => {
                avro::write(flavor, text, writer, schema, value, out)
            }
            (Self::JsonSchema(options), Some(schema)) => options.values.write(out, Some(schema), value),
            (Self::Protobuf(options), Some(schema)) => protobuf::write(out, schema, value, options),
            (Self::JsonSchema(_) | Self::Protobuf(_), None) => Err(self.without_schema().into()),
        }
    }

    /// Returns a writer for the fields of this struct.
    pub(super) fn struct_writer<'w>(
        self,
        schema: &Schema,
        out: &'w mut Vec<u8>,
    ) -> Result<StructWriter<'w>, ConvertError> {
        Ok(match self {
            Self::Avro(_, _, writer) => StructWriter::avro(writer, out),
            Self::JsonSchema(options) => StructWriter::json(options.values, out),
            Self::Protobuf(options) => StructWriter::protobuf(protobuf::begin(out, schema, options)?, out),
        })
    }

    /// Returns the text of a schema; `None` stands for a value without one.
    pub(super) fn text(self, schema: Option<&Schema>) -> Result<SchemaText, ConvertError> {
        Ok(match (self, schema) {
            (Self::Avro(_, options, _), schema) => avro::text(schema, options)?,
            (Self::JsonSchema(options), Some(schema)) => json_schema::text(schema, options)?,
            (Self::Protobuf(options), Some(schema)) => protobuf::text(schema, options)?,
            (Self::JsonSchema(_) | Self::Protobuf(_), None) => return Err(self.without_schema().into()),
        })
    }

    fn without_schema(self) -> UnsupportedSchema {
        UnsupportedSchema { converter: self.name(), schema: "value without a schema".to_owned() }
    }
}
