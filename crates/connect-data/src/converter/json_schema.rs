//! Schemas in the JSON of JsonConverter.

use std::io::Write as _;

use super::json::JsonConverter;
use super::json_text::{NonBmp, write_string};
use crate::{Kind, Schema, Value};

/// Appends a schema as `JsonConverter.asJsonSchema` writes it. The schema of a struct's field ends with the field's name.
/// `converter` writes the default values.
pub(super) fn write_schema(
    out: &mut Vec<u8>,
    converter: JsonConverter,
    schema: &Schema,
    field: Option<&str>,
) {
    if schema.kind == Kind::Untyped {
        out.extend(b"null");
        return;
    }
    out.extend(b"{\"type\":");
    write_kind(out, converter, &schema.kind);
    let _infallible = write!(out, ",\"optional\":{}", schema.optional);
    if let Some(name) = schema.name() {
        member(out, "name", name);
    }
    if let Some(version) = schema.version {
        let _infallible = write!(out, ",\"version\":{version}");
    }
    if let Some(doc) = schema.doc {
        member(out, "doc", doc);
    }
    write_parameters(out, &schema.parameters);
    if let Some(default) = &schema.default {
        out.extend(b",\"default\":");
        write_default(out, converter, schema, default);
    }
    if let Some(field) = field {
        member(out, "field", field);
    }
    out.push(b'}');
}

/// Appends the default value of a schema, or null if it cannot be written.
fn write_default(out: &mut Vec<u8>, converter: JsonConverter, schema: &Schema, default: &Value<'_>) {
    let start = out.len();
    if converter.write(out, Some(schema), default).is_err() {
        out.truncate(start);
        out.extend(b"null");
    }
}

fn write_kind(out: &mut Vec<u8>, converter: JsonConverter, kind: &Kind) {
    match kind {
        Kind::Boolean => out.extend(b"\"boolean\""),
        Kind::Int8 => out.extend(b"\"int8\""),
        Kind::Int16 => out.extend(b"\"int16\""),
        Kind::Int32 => out.extend(b"\"int32\""),
        Kind::Int64 => out.extend(b"\"int64\""),
        Kind::Float32 => out.extend(b"\"float\""),
        Kind::Float64 => out.extend(b"\"double\""),
        Kind::String => out.extend(b"\"string\""),
        Kind::Bytes => out.extend(b"\"bytes\""),
        Kind::Array(element) => {
            out.extend(b"\"array\",\"items\":");
            write_schema(out, converter, element, None);
        }
        Kind::Map(keys, values) => {
            out.extend(b"\"map\",\"keys\":");
            write_schema(out, converter, keys, None);
            out.extend(b",\"values\":");
            write_schema(out, converter, values, None);
        }
        Kind::Struct(fields) => {
            out.extend(b"\"struct\",\"fields\":[");
            for (index, field) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_schema(out, converter, &field.schema, Some(&field.name));
            }
            out.push(b']');
        }
        Kind::Untyped => {}
    }
}

fn write_parameters(out: &mut Vec<u8>, parameters: &[(&'static str, String)]) {
    if parameters.is_empty() {
        return;
    }
    out.extend(b",\"parameters\":{");
    for (index, (name, value)) in parameters.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(out, name, NonBmp::Escaped);
        out.push(b':');
        write_string(out, value, NonBmp::Escaped);
    }
    out.push(b'}');
}

fn member(out: &mut Vec<u8>, name: &str, value: &str) {
    let _infallible = write!(out, ",\"{name}\":");
    write_string(out, value, NonBmp::Escaped);
}
