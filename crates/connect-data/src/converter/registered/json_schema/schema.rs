//! JSON Schema of a Connect schema, as the text that Confluent's converter registers.
//!
//! The members of its objects have the iteration order of Java's hash maps.

use std::io::Write as _;
use std::sync::Arc;

use super::default;
use super::{JsonSchemaOptions, SchemaError, SchemaText};
use crate::converter::json_text::{NonBmp, write_string};
use crate::converter::{ConvertError, DecimalFormat};
use crate::java::hash_map::{Made, in_order};
use crate::{Field, Kind, Schema};

const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// Prefix of the parameters that belong to the converter itself; they are omitted.
const NAMESPACE: &str = "io.confluent.connect.json";

/// Returns the text of a schema.
pub(in super::super) fn text(
    schema: &Schema,
    options: JsonSchemaOptions,
) -> Result<SchemaText, ConvertError> {
    let mut writer = Writer { options, out: Vec::new() };
    writer.schema(schema, None)?;
    let text = String::from_utf8_lossy(&writer.out).into_owned();
    Ok(SchemaText { text, name: title(schema).map(str::to_owned) })
}

/// Returns the name at the top level of the schema. The name of an optional schema is one level below.
pub(in super::super) fn title(schema: &Schema) -> Option<&str> {
    schema.name().filter(|_| !schema.optional)
}

struct Writer {
    options: JsonSchemaOptions,
    out: Vec<u8>,
}

/// A member with Connect's metadata.
type Member = (&'static str, String);

impl Writer {
    /// Appends a schema. For a field, `place` is its index in the struct.
    fn schema(&mut self, schema: &Schema, place: Option<usize>) -> Result<(), ConvertError> {
        if !schema.optional {
            return self.base(schema, place);
        }
        self.out.push(b'{');
        if let Some(place) = place {
            let _infallible = write!(self.out, "\"connect.index\":{place},");
        }
        self.out.extend(b"\"oneOf\":[{\"type\":\"null\"},");
        self.base(schema, None)?;
        self.out.extend(b"]}");
        Ok(())
    }

    /// Appends a schema as if it were required.
    fn base(&mut self, schema: &Schema, place: Option<usize>) -> Result<(), ConvertError> {
        self.out.push(b'{');
        // The type of a boolean comes after all other members.
        let is_type_first = schema.kind != Kind::Boolean;
        if is_type_first {
            self.type_name(schema);
        }
        if matches!(schema.kind, Kind::Struct(_)) && !self.options.additional_properties {
            self.key("additionalProperties");
            self.out.extend(b"false");
        }
        if let Some(name) = schema.name() {
            self.key("title");
            self.text(name);
        }
        if let Some(doc) = schema.doc {
            self.key("description");
            self.text(doc);
        }
        if let Some(value) = &schema.default {
            self.key("default");
            default::write(&mut self.out, schema, value, self.options.values)?;
        }
        let members = in_order(metadata(schema, place), Made::Empty, |(name, _)| name);
        for (name, value) in in_order(members, Made::Copied, |(name, _)| name) {
            self.key(name);
            self.out.extend(value.bytes());
        }
        self.inner(&schema.kind)?;
        if !is_type_first {
            self.type_name(schema);
        }
        self.out.push(b'}');
        Ok(())
    }

    /// Appends the schemas nested in one of this kind.
    fn inner(&mut self, kind: &Kind) -> Result<(), ConvertError> {
        match kind {
            Kind::Array(element) => {
                self.key("items");
                self.schema(element, None)
            }
            Kind::Map(keys, values) if keys.kind != Kind::String => {
                self.key("items");
                self.out.extend(b"{\"type\":\"object\"");
                self.properties(
                    &[("key", keys), ("value", values)]
                        .map(|(name, schema)| Field::new(name, Arc::clone(schema))),
                )?;
                self.out.push(b'}');
                Ok(())
            }
            Kind::Map(_, values) => {
                self.key("additionalProperties");
                self.schema(values, None)
            }
            Kind::Struct(fields) if !fields.is_empty() => self.properties(fields),
            Kind::Untyped => Err(SchemaError::Untyped("an element".to_owned()).into()),
            _ => Ok(()),
        }
    }

    fn properties(&mut self, fields: &[Field]) -> Result<(), ConvertError> {
        self.key("properties");
        self.out.push(b'{');
        let places: Vec<(usize, &Field)> = fields.iter().enumerate().collect();
        let ordered = in_order(places, Made::Empty, |(_, field)| &field.name);
        for (index, (place, field)) in ordered.into_iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.text(&field.name);
            self.out.push(b':');
            self.schema(&field.schema, Some(place))?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn type_name(&mut self, schema: &Schema) {
        let name = match schema.kind {
            Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64 => "integer",
            Kind::Float32 | Kind::Float64 => "number",
            Kind::Boolean => "boolean",
            Kind::String => "string",
            Kind::Bytes if is_number(schema, self.options) => "number",
            Kind::Bytes => "string",
            Kind::Array(_) => "array",
            // A list of entries.
            Kind::Map(ref keys, _) if keys.kind != Kind::String => "array",
            Kind::Map(..) | Kind::Struct(_) | Kind::Untyped => "object",
        };
        self.key("type");
        let _infallible = write!(self.out, "\"{name}\"");
    }

    /// Begins a member.
    fn key(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        let _infallible = write!(self.out, "\"{name}\":");
    }

    fn text(&mut self, text: &str) {
        write_string(&mut self.out, text, NonBmp::Raw);
    }
}

fn is_number(schema: &Schema, options: JsonSchemaOptions) -> bool {
    schema.name() == Some(DECIMAL) && options.values.decimal_format == DecimalFormat::Numeric
}

/// Returns the `connect.*` members, in the order in which the converter collects them.
fn metadata(schema: &Schema, place: Option<usize>) -> Vec<Member> {
    let mut members = Vec::with_capacity(4);
    let connect_type = match schema.kind {
        Kind::Int8 => Some("\"int8\""),
        Kind::Int16 => Some("\"int16\""),
        Kind::Int32 => Some("\"int32\""),
        Kind::Int64 => Some("\"int64\""),
        Kind::Float32 => Some("\"float32\""),
        Kind::Float64 => Some("\"float64\""),
        Kind::Bytes => Some("\"bytes\""),
        Kind::Map(..) => Some("\"map\""),
        Kind::Boolean | Kind::String | Kind::Array(_) | Kind::Struct(_) | Kind::Untyped => None,
    };
    members.extend(connect_type.map(|name| ("connect.type", name.to_owned())));
    members.extend(schema.version.map(|version| ("connect.version", version.to_string())));
    members.extend(parameters(schema).map(|parameters| ("connect.parameters", parameters)));
    members.extend(place.map(|place| ("connect.index", place.to_string())));
    members
}

fn parameters(schema: &Schema) -> Option<String> {
    let known = schema.parameters.iter().filter(|(name, _)| !name.starts_with(NAMESPACE)).collect();
    let collected: Vec<&(&str, String)> = in_order(known, Made::Empty, |(name, _)| name);
    if collected.is_empty() {
        return None;
    }
    let mut out = Vec::new();
    for (name, value) in in_order(collected, Made::Sized, |(name, _)| name) {
        out.push(if out.is_empty() { b'{' } else { b',' });
        write_string(&mut out, name, NonBmp::Raw);
        out.push(b':');
        write_string(&mut out, value, NonBmp::Raw);
    }
    out.push(b'}');
    Some(String::from_utf8_lossy(&out).into_owned())
}
