//! Parts of an Avro schema besides types and names: Connect's metadata, logical types, default values.

use std::io::Write as _;

use super::schema::Writer;
use crate::converter::json::counted;
use crate::converter::json_text::{NonBmp, write_string};
use crate::converter::string::{write_integer, write_scalar};
use crate::{Kind, Schema, Value};

const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";

/// Precision of a decimal whose schema does not state it.
const DECIMAL_PRECISION: &str = "64";

impl Writer<'_> {
    /// Appends all properties after the type, in the order in which Connect's converter adds them.
    pub(super) fn properties(&mut self, schema: &Schema) {
        let parameter = |name: &str| {
            schema.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
        };
        if schema.name() == Some(DECIMAL) {
            let scale = parameter("scale").unwrap_or("0");
            let precision = parameter("connect.decimal.precision").unwrap_or(DECIMAL_PRECISION);
            let _infallible = write!(self.out, ",\"scale\":{scale},\"precision\":{precision}");
        }
        if self.options.metadata {
            self.metadata(schema);
        }
        let logical_type = match schema.name() {
            Some(DECIMAL) => "decimal",
            Some("org.apache.kafka.connect.data.Date") => "date",
            Some("org.apache.kafka.connect.data.Time") => "time-millis",
            Some("org.apache.kafka.connect.data.Timestamp") => "timestamp-millis",
            _ => return,
        };
        let _infallible = write!(self.out, ",\"logicalType\":\"{logical_type}\"");
    }

    fn metadata(&mut self, schema: &Schema) {
        if let Some(doc) = schema.doc {
            self.out.extend(b",\"connect.doc\":");
            self.text(doc);
        }
        if let Some(version) = schema.version {
            let _infallible = write!(self.out, ",\"connect.version\":{version}");
        }
        for (index, (name, value)) in schema.parameters.iter().enumerate() {
            self.out.extend(if index == 0 { &b",\"connect.parameters\":{"[..] } else { b"," });
            self.text(name);
            self.out.push(b':');
            self.text(value);
        }
        if !schema.parameters.is_empty() {
            self.out.push(b'}');
        }
        if let Some(default) = &schema.default {
            self.out.extend(b",\"connect.default\":");
            self.default(schema, default);
        }
        if let Some(name) = schema.name() {
            self.out.extend(b",\"connect.name\":");
            self.text(name);
        }
        match schema.kind {
            Kind::Int8 => self.out.extend(b",\"connect.type\":\"int8\""),
            Kind::Int16 => self.out.extend(b",\"connect.type\":\"int16\""),
            _ => {}
        }
    }

    /// Appends a default value as JSON. Bytes become text with one character per byte.
    pub(super) fn default(&mut self, schema: &Schema, value: &Value<'_>) {
        match value {
            Value::Str(text) => self.text(text),
            Value::Bytes(bytes) => self.latin1(bytes),
            Value::Decimal(number) => self.latin1(&number.unscaled_bytes()),
            Value::Array(items) => {
                let Kind::Array(element) = &schema.kind else { return };
                self.members(*b"[]", items, |writer, item| writer.default(element, item));
            }
            Value::Map(entries) => {
                let Kind::Map(_, values) = &schema.kind else { return };
                self.members(*b"{}", entries, |writer, (key, value)| {
                    writer.text(if let Value::Str(key) = key { key } else { "" });
                    writer.out.push(b':');
                    writer.default(values, value);
                });
            }
            Value::Struct(values) => {
                let Kind::Struct(fields) = &schema.kind else { return };
                let members: Vec<_> = fields.iter().zip(values).collect();
                self.members(*b"{}", &members, |writer, (field, value)| {
                    writer.text(&field.name);
                    writer.out.push(b':');
                    writer.default(&field.schema, value);
                });
            }
            Value::Date(millis) => write_integer(&mut self.out, counted(Some(schema), *millis)),
            Value::Float32(number) if !number.is_finite() => self.quoted(value),
            Value::Float64(number) if !number.is_finite() => self.quoted(value),
            scalar => write_scalar(&mut self.out, scalar),
        }
    }

    fn members<T>(&mut self, [open, close]: [u8; 2], items: &[T], write: impl Fn(&mut Self, &T)) {
        self.out.push(open);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            write(self, item);
        }
        self.out.push(close);
    }

    fn latin1(&mut self, bytes: &[u8]) {
        let text: String = bytes.iter().copied().map(char::from).collect();
        self.text(&text);
    }

    fn quoted(&mut self, number: &Value<'_>) {
        self.out.push(b'"');
        write_scalar(&mut self.out, number);
        self.out.push(b'"');
    }

    pub(super) fn text(&mut self, text: &str) {
        write_string(&mut self.out, text, NonBmp::Raw);
    }
}
