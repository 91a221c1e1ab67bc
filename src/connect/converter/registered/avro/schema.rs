//! The Avro schema of a Connect schema, as the text that Java's `Schema.toString()` gives.

use std::io::Write as _;

use super::binary::null_is_first;
use super::name::{Name, NameError, field_name};
use super::{SchemaError, SchemaText};
use crate::connect::{Field, Kind, Schema};

/// Where structs without a name live.
const NAMESPACE: &str = "io.confluent.connect.avro";
const DEFAULT_NAME: &str = "ConnectDefault";
/// The record for an entry of a map whose keys are no texts, which Avro's maps do not have.
const ENTRY_NAME: &str = "MapEntry";

/// Any value without a Connect schema.
const ANYTHING: &str = include_str!("anything.json");
const ANYTHING_NAME: &str = "Anything";

/// What the text depends on besides the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct TextOptions {
    /// `connect.meta.data` (true): Connect's own names, versions, parameters and defaults stand in the schema.
    pub(in super::super) metadata: bool,
    /// `scrub.invalid.names` (false): names that Avro does not take are changed.
    pub(in super::super) scrub: bool,
    /// Apicurio's serializer takes the schema from the record itself, which knows nothing of a union around it.
    pub(in super::super) lone_records: bool,
}

impl TextOptions {
    /// Whether the whole of a value is a record and not a union of null and one.
    pub(in super::super) const fn is_lone_record(self, schema: &Schema) -> bool {
        matches!(schema.kind, Kind::Struct(_)) && (self.lone_records || !schema.optional)
    }
}

/// The text of a schema; `None` is that of any value.
pub(in super::super) fn text(
    schema: Option<&Schema>,
    options: TextOptions,
) -> Result<SchemaText, SchemaError> {
    let Some(schema) = schema else {
        return Ok(SchemaText {
            text: ANYTHING.trim_end().to_owned(),
            name: Some(format!("{NAMESPACE}.{ANYTHING_NAME}")),
        });
    };
    let mut writer =
        Writer { options, out: Vec::new(), records: Vec::new(), entry: None, unnamed: Vec::new() };
    let is_record = options.is_lone_record(schema);
    if is_record {
        writer.base(schema, None)?;
    } else {
        writer.schema(schema, None)?;
    }
    let record = writer.records.into_iter().next().filter(|_| is_record);
    let text = String::from_utf8_lossy(&writer.out).into_owned();
    Ok(SchemaText { text, name: record.map(|(name, _)| name.to_string()) })
}

pub(super) struct Writer<'s> {
    pub(super) options: TextOptions,
    pub(super) out: Vec<u8>,
    /// The records that are written already, the outermost first.
    records: Vec<(Name, &'s [Field])>,
    /// The key and the value of map entries, when their record is written already.
    entry: Option<(&'s Schema, &'s Schema)>,
    /// The structs without a name there were, each as if it were required. Equal ones are one record.
    unnamed: Vec<Schema>,
}

impl<'s> Writer<'s> {
    /// Writes a schema inside of the namespace `enclosing`.
    fn schema(&mut self, schema: &'s Schema, enclosing: Option<&str>) -> Result<(), SchemaError> {
        match (schema.optional, null_is_first(schema)) {
            (false, _) => self.base(schema, enclosing),
            (true, true) => {
                self.out.extend(b"[\"null\",");
                self.base(schema, enclosing)?;
                self.out.push(b']');
                Ok(())
            }
            (true, false) => {
                self.out.push(b'[');
                self.base(schema, enclosing)?;
                self.out.extend(b",\"null\"]");
                Ok(())
            }
        }
    }

    /// The schema as if it were required.
    fn base(&mut self, schema: &'s Schema, enclosing: Option<&str>) -> Result<(), SchemaError> {
        match &schema.kind {
            Kind::Struct(fields) => return self.record(schema, fields, enclosing),
            Kind::Array(element) => {
                self.out.extend(b"{\"type\":\"array\",\"items\":");
                self.schema(element, enclosing)?;
            }
            Kind::Map(keys, values) if keys.kind != Kind::String => {
                self.out.extend(b"{\"type\":\"array\",\"items\":");
                self.entry(keys, values, enclosing)?;
            }
            Kind::Map(_, values) => {
                self.out.extend(b"{\"type\":\"map\",\"values\":");
                self.schema(values, enclosing)?;
            }
            scalar => {
                self.scalar(schema, type_name(scalar));
                return Ok(());
            }
        }
        self.properties(schema);
        self.out.push(b'}');
        Ok(())
    }

    /// A type that is its own schema as long as it has no properties.
    fn scalar(&mut self, schema: &Schema, type_name: &str) {
        let start = self.out.len();
        let _infallible = write!(self.out, "{{\"type\":\"{type_name}\"");
        let bare = self.out.len();
        self.properties(schema);
        if self.out.len() > bare {
            self.out.push(b'}');
            return;
        }
        self.out.truncate(start);
        let _infallible = write!(self.out, "\"{type_name}\"");
    }

    /// A record, or the name of one that is written already.
    fn record(
        &mut self,
        schema: &'s Schema,
        fields: &'s [Field],
        enclosing: Option<&str>,
    ) -> Result<(), SchemaError> {
        let name = self.name(schema)?;
        if let Some((_, known)) = self.records.iter().find(|(known, _)| *known == name) {
            if *known != fields {
                return Err(SchemaError::Redefined(name.to_string()));
            }
            self.text(&name.qualified(enclosing));
            return Ok(());
        }
        self.records.push((name.clone(), fields));
        self.out.extend(b"{\"type\":\"record\",\"name\":");
        self.text(&name.simple);
        let namespace = name.namespace.as_deref();
        if namespace != enclosing {
            self.out.extend(b",\"namespace\":");
            self.text(namespace.unwrap_or_default());
        }
        self.out.extend(b",\"fields\":[");
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.field(field, namespace)?;
        }
        self.out.push(b']');
        self.properties(schema);
        self.out.push(b'}');
        Ok(())
    }

    /// The record for an entry, or its name if it is written already.
    fn entry(
        &mut self,
        key: &'s Schema,
        value: &'s Schema,
        enclosing: Option<&str>,
    ) -> Result<(), SchemaError> {
        let name = Name { namespace: Some(NAMESPACE.to_owned()), simple: ENTRY_NAME.to_owned() };
        if let Some(known) = self.entry {
            if known != (key, value) {
                return Err(SchemaError::Redefined(name.to_string()));
            }
            self.text(&name.qualified(enclosing));
            return Ok(());
        }
        self.entry = Some((key, value));
        self.out.extend(b"{\"type\":\"record\",\"name\":");
        self.text(&name.simple);
        if enclosing != Some(NAMESPACE) {
            self.out.extend(b",\"namespace\":");
            self.text(NAMESPACE);
        }
        self.out.extend(b",\"fields\":[{\"name\":\"key\",\"type\":");
        self.schema(key, Some(NAMESPACE))?;
        self.out.extend(b"},{\"name\":\"value\",\"type\":");
        self.schema(value, Some(NAMESPACE))?;
        self.out.extend(b"}]}");
        Ok(())
    }

    fn name(&mut self, schema: &Schema) -> Result<Name, NameError> {
        if let Some(name) = schema.name() {
            return Name::split(name, self.options.scrub);
        }
        let required = schema.clone().optional(false);
        let place = self.unnamed.iter().position(|known| *known == required).unwrap_or(self.unnamed.len());
        if place == self.unnamed.len() {
            self.unnamed.push(required);
        }
        let number = if place > 0 { place.saturating_add(1).to_string() } else { String::new() };
        Ok(Name { namespace: Some(NAMESPACE.to_owned()), simple: format!("{DEFAULT_NAME}{number}") })
    }

    fn field(&mut self, field: &'s Field, namespace: Option<&str>) -> Result<(), SchemaError> {
        let name = field_name(&field.name, self.options.scrub)?;
        self.out.extend(b"{\"name\":");
        self.text(&name);
        self.out.extend(b",\"type\":");
        self.schema(&field.schema, namespace)?;
        match &field.schema.default {
            Some(default) if !(field.schema.optional && null_is_first(&field.schema)) => {
                self.out.extend(b",\"default\":");
                self.default(&field.schema, default);
            }
            // Of a union, the default must be of the first type.
            Some(_) => {}
            None if field.schema.optional => self.out.extend(b",\"default\":null"),
            None => {}
        }
        self.out.push(b'}');
        Ok(())
    }
}

const fn type_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::Int8 | Kind::Int16 | Kind::Int32 => "int",
        Kind::Int64 => "long",
        Kind::Float32 => "float",
        Kind::Float64 => "double",
        Kind::String => "string",
        Kind::Bytes => "bytes",
        Kind::Array(_) => "array",
        Kind::Map(..) => "map",
        Kind::Struct(_) => "record",
    }
}
