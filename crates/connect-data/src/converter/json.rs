//! JsonConverter.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::json_schema::write_schema;
use super::json_text::{NonBmp, write_string};
use super::string::{write_integer, write_scalar};
use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::{Field, Kind, Schema, Value};

const CONNECT_DATE: &str = "org.apache.kafka.connect.data.Date";
const MILLIS_PER_DAY: i64 = 86_400_000;

/// `JsonConverter`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonConverter {
    /// `schemas.enable` (true): every value is written with its schema.
    pub schemas: bool,
    /// `decimal.format` (BASE64): form of decimals.
    pub decimal_format: DecimalFormat,
    /// `replace.null.with.default` (true): a null of a schema with a default is written as the default.
    pub replace_null_with_default: bool,
    /// Entries of a map whose keys are not strings are objects with names, as JsonSchemaConverter writes them (false).
    pub(super) named_entries: bool,
}

/// `decimal.format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecimalFormat {
    /// The unscaled value's bytes, in base64.
    Base64,
    /// A JSON number.
    Numeric,
}

impl Default for JsonConverter {
    fn default() -> Self {
        Self { schemas: true, ..Self::PLAIN }
    }
}

impl JsonConverter {
    /// JSON without schema.
    pub(super) const PLAIN: Self = Self {
        schemas: false,
        decimal_format: DecimalFormat::Base64,
        replace_null_with_default: true,
        named_entries: false,
    };

    /// JSON without schema, with decimals as numbers.
    pub(super) const NUMERIC: Self = Self { decimal_format: DecimalFormat::Numeric, ..Self::PLAIN };

    pub(super) fn convert<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Encoded<'a>, ConvertError> {
        if schema.is_none() && value.is_null() {
            return Ok(Encoded::Null);
        }
        let start = scratch.len();
        if self.schemas {
            write_before_payload(scratch, *self, schema);
        }
        self.write(scratch, schema, value)?;
        if self.schemas {
            scratch.push(b'}');
        }
        Ok(Encoded::Scratch(start..scratch.len()))
    }

    /// Converts a value whose schema is shared by many values: the schema's text is written once and then copied.
    pub(super) fn convert_shared<'a, E>(
        &self,
        schema: &Arc<Schema>,
        into: &mut Destination<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Encoded<'a>, E> {
        let start = into.scratch.len();
        if self.schemas {
            into.scratch.extend_from_slice(into.schemas.texts.of(schema, *self));
        }
        write(into.scratch)?;
        if self.schemas {
            into.scratch.push(b'}');
        }
        Ok(Encoded::Scratch(start..into.scratch.len()))
    }

    /// Appends a value without its schema.
    pub(super) fn write(
        &self,
        out: &mut Vec<u8>,
        schema: Option<&Schema>,
        value: &Value<'_>,
    ) -> Result<(), ConvertError> {
        match value {
            Value::Null => return self.write_null(out, schema),
            Value::Date(_) | Value::Decimal(_) if is_untyped(schema) => {
                return Err(unsupported("date or a decimal without a schema"));
            }
            Value::Str(text) => write_string(out, text, NonBmp::Escaped),
            Value::Bytes(bytes) => write_base64(out, bytes),
            Value::Decimal(decimal) => match self.decimal_format {
                DecimalFormat::Base64 => write_base64(out, &decimal.unscaled_bytes()),
                DecimalFormat::Numeric => write_scalar(out, value),
            },
            Value::Date(millis) => write_date(out, schema, *millis),
            Value::Float32(number) if !number.is_finite() => quoted_scalar(out, value),
            Value::Float64(number) if !number.is_finite() => quoted_scalar(out, value),
            Value::Array(items) => return self.write_array(out, schema, items),
            Value::Map(entries) => return self.write_map(out, schema, entries),
            Value::Struct(values) => return self.write_struct(out, schema, values),
            scalar => write_scalar(out, scalar),
        }
        Ok(())
    }

    fn write_null(&self, out: &mut Vec<u8>, schema: Option<&Schema>) -> Result<(), ConvertError> {
        match schema {
            Some(Schema { default: Some(default), .. }) if self.replace_null_with_default => {
                return self.write(out, schema, default);
            }
            Some(Schema { optional: false, .. }) => return Err(ConvertError::RequiredNull),
            _ => out.extend(b"null"),
        }
        Ok(())
    }

    fn write_array(
        &self,
        out: &mut Vec<u8>,
        schema: Option<&Schema>,
        items: &[Value<'_>],
    ) -> Result<(), ConvertError> {
        let element = match schema.map(|schema| &schema.kind) {
            Some(Kind::Array(element)) => Some(&**element),
            Some(Kind::Untyped) => schema,
            _ => None,
        };
        out.push(b'[');
        for (index, item) in items.iter().enumerate() {
            comma(out, index);
            self.write(out, element, item)?;
        }
        out.push(b']');
        Ok(())
    }

    /// Appends a map: an object if the keys are strings, otherwise a list of pairs or, with `named_entries`, of objects.
    fn write_map(
        &self,
        out: &mut Vec<u8>,
        schema: Option<&Schema>,
        entries: &[(Value<'_>, Value<'_>)],
    ) -> Result<(), ConvertError> {
        let (keys, values) = match schema.map(|schema| &schema.kind) {
            Some(Kind::Map(keys, _)) if keys.kind == Kind::Untyped => {
                return Err(unsupported("map whose keys have no common type"));
            }
            Some(Kind::Map(keys, values)) => (Some(&**keys), Some(&**values)),
            Some(Kind::Untyped) => (schema, schema),
            _ => (None, None),
        };
        let is_object = match keys.filter(|keys| keys.kind != Kind::Untyped) {
            Some(keys) => keys.kind == Kind::String,
            None => entries.iter().all(|(key, _)| matches!(key, Value::Str(_))),
        };
        let ([begin, end], [open, between, close]): (_, [&[u8]; 3]) = match self.named_entries {
            _ if is_object => (*b"{}", [b"", b":", b""]),
            false => (*b"[]", [b"[", b",", b"]"]),
            true => (*b"[]", [b"{\"key\":", b",\"value\":", b"}"]),
        };
        out.push(begin);
        for (index, (key, value)) in entries.iter().enumerate() {
            comma(out, index);
            out.extend(open);
            self.write(out, keys, key)?;
            out.extend(between);
            self.write(out, values, value)?;
            out.extend(close);
        }
        out.push(end);
        Ok(())
    }

    fn write_struct(
        &self,
        out: &mut Vec<u8>,
        schema: Option<&Schema>,
        values: &[Value<'_>],
    ) -> Result<(), ConvertError> {
        let fields: &[Field] = match schema.map(|schema| &schema.kind) {
            Some(Kind::Struct(fields)) => fields,
            _ => &[],
        };
        out.push(b'{');
        for (index, (field, value)) in fields.iter().zip(values).enumerate() {
            comma(out, index);
            write_string(out, &field.name, NonBmp::Escaped);
            out.push(b':');
            self.write(out, Some(&field.schema), value)?;
        }
        out.push(b'}');
        Ok(())
    }
}

/// Appends the schema and the key of the payload, which precede a value.
pub(super) fn write_before_payload(out: &mut Vec<u8>, converter: JsonConverter, schema: Option<&Schema>) {
    out.extend(b"{\"schema\":");
    match schema {
        Some(schema) => write_schema(out, converter, schema, None),
        None => out.extend(b"null"),
    }
    out.extend(b",\"payload\":");
}

fn write_date(out: &mut Vec<u8>, schema: Option<&Schema>, millis: i64) {
    write_integer(out, counted(schema, millis));
}

/// Returns the number that is written for a `java.util.Date`: days for Connect's `Date`, milliseconds for its `Time` and
/// `Timestamp`.
pub(super) fn counted(schema: Option<&Schema>, millis: i64) -> i64 {
    let is_date = schema.and_then(Schema::name) == Some(CONNECT_DATE);
    if is_date { millis.div_euclid(MILLIS_PER_DAY) } else { millis }
}

fn is_untyped(schema: Option<&Schema>) -> bool {
    schema.is_some_and(|schema| schema.kind == Kind::Untyped)
}

fn unsupported(schema: &str) -> ConvertError {
    UnsupportedSchema { converter: "JsonConverter", schema: schema.to_owned() }.into()
}

fn comma(out: &mut Vec<u8>, index: usize) {
    if index > 0 {
        out.push(b',');
    }
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    let start = out.len();
    let length = base64::encoded_len(bytes.len(), true).unwrap_or_default();
    out.resize(start.saturating_add(length), 0);
    if let Some(room) = out.get_mut(start..) {
        // The room is exactly the encoded length.
        STANDARD.encode_slice(bytes, room).ok();
    }
    out.push(b'"');
}

/// Appends a non-finite number in quotes: `"NaN"`, `"Infinity"`.
fn quoted_scalar(out: &mut Vec<u8>, value: &Value<'_>) {
    out.push(b'"');
    write_scalar(out, value);
    out.push(b'"');
}
