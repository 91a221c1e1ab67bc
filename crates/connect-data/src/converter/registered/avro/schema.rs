//! Avro schema of a Connect schema, as the text that Java's `Schema.toString()` returns.

use std::io::Write as _;

use super::binary::null_is_first;
use super::name::{Name, NameError, field_name};
use super::{SchemaError, SchemaText};
use crate::{Field, Kind, Schema};

/// Namespace of structs without a name.
const NAMESPACE: &str = "io.confluent.connect.avro";
const DEFAULT_NAME: &str = "ConnectDefault";
/// Name of the record for an entry of a map whose keys are not strings, which Avro's maps do not support.
const ENTRY_NAME: &str = "MapEntry";

/// Schema of any value without a Connect schema.
const ANYTHING: &str = include_str!("anything.json");
const ANYTHING_NAME: &str = "Anything";

/// Options that the text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct TextOptions {
    /// `connect.meta.data` (true): the schema includes Connect's own names, versions, parameters and defaults.
    pub(in super::super) metadata: bool,
    /// `scrub.invalid.names` (false): names that Avro does not allow are changed.
    pub(in super::super) scrub: bool,
    /// Apicurio's serializer uses the schema of the record itself, without a union around it.
    pub(in super::super) lone_records: bool,
}

impl TextOptions {
    /// Reports whether the whole value is a record, and not a union of null and a record.
    pub(in super::super) const fn is_lone_record(self, schema: &Schema) -> bool {
        matches!(schema.kind, Kind::Struct(_)) && (self.lone_records || !schema.optional)
    }
}

/// Returns the text of a schema; `None` stands for the schema of any value.
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
    /// Records that are already written, the outermost first.
    records: Vec<(Name, &'s [Field])>,
    /// Key and value of map entries, if their record is already written.
    entry: Option<(&'s Schema, &'s Schema)>,
    /// Structs without a name so far, each as if it were required. Equal structs share one record.
    unnamed: Vec<Schema>,
}

impl<'s> Writer<'s> {
    /// Appends a schema within the namespace `enclosing`.
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

    /// Appends a schema as if it were required.
    fn base(&mut self, schema: &'s Schema, enclosing: Option<&str>) -> Result<(), SchemaError> {
        match &schema.kind {
            Kind::Struct(fields) => return self.record(schema, fields, enclosing),
            Kind::Untyped => return Err(SchemaError::Untyped("an element".to_owned())),
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

    /// Appends a scalar type: only its name if it has no properties.
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

    /// Appends a record, or its name if it is already written.
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

    /// Appends the record for a map entry, or its name if it is already written.
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
            // The default value of a union must be of the first type.
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
        Kind::Struct(_) | Kind::Untyped => "record",
    }
}
