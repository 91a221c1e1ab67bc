//! Messages of a Protobuf schema.

use super::logical::Logical;
use super::names::{self, FullName, checked, scrubbed};
use super::wrapper::Wrapper;
use super::{ProtobufOptions, SchemaError};
use crate::{Field, Kind, Schema};

const OPTIONAL: &str = "optional";
const WRAPPERS_FILE: &str = "google/protobuf/wrappers.proto";

/// A message, with the messages nested in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) name: String,
    pub(super) fields: Vec<MessageField>,
    pub(super) nested: Vec<Self>,
}

/// A field of a message. Its number is its index plus one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MessageField {
    pub(super) label: Option<&'static str>,
    pub(super) type_name: String,
    pub(super) name: String,
    /// Connect metadata that the converter adds.
    pub(super) parameters: Vec<(&'static str, String)>,
}

impl Message {
    /// Returns the message of a struct and the files that it imports.
    pub(super) fn of(
        schema: &Schema,
        options: ProtobufOptions,
    ) -> Result<(Self, Vec<&'static str>), SchemaError> {
        let FullName { simple, .. } = names::full_name(schema, options);
        let Kind::Struct(fields) = &schema.kind else { return Err(SchemaError::NoRecord("Protobuf")) };
        let mut builder = Builder { options, imports: Vec::new(), unnamed: 0 };
        if names::said(schema).is_none() {
            builder.next_default();
        }
        let message =
            builder.message(simple, fields.iter().map(|field| (field.name.as_str(), &*field.schema)))?;
        Ok((message, builder.imports))
    }
}

struct Builder {
    options: ProtobufOptions,
    imports: Vec<&'static str>,
    /// Number of structs and maps without a name so far.
    unnamed: usize,
}

/// Structs that are defined in a message.
type Defined<'s> = Vec<(String, &'s [Field])>;

impl Builder {
    fn message<'s>(
        &mut self,
        name: String,
        fields: impl Iterator<Item = (&'s str, &'s Schema)>,
    ) -> Result<Message, SchemaError> {
        let mut message = Message { name: checked(name)?, fields: Vec::new(), nested: Vec::new() };
        let mut defined = Defined::new();
        for (name, schema) in fields {
            let name = checked(scrubbed(name, self.options).into_owned())?;
            let field = self.field(&mut message, &mut defined, name, schema)?;
            message.fields.push(field);
        }
        check_scope(&message)?;
        Ok(message)
    }

    fn field<'s>(
        &mut self,
        message: &mut Message,
        defined: &mut Defined<'s>,
        name: String,
        schema: &'s Schema,
    ) -> Result<MessageField, SchemaError> {
        let is_list = matches!(schema.kind, Kind::Array(_));
        let (label, schema) = match &schema.kind {
            Kind::Array(element) => (Some("repeated"), &**element),
            Kind::Map(..) => (Some("repeated"), schema),
            _ if self.options.optionals && schema.optional => (Some(OPTIONAL), schema),
            _ => (None, schema),
        };
        let type_name = match &schema.kind {
            Kind::Untyped => return Err(SchemaError::Untyped(name)),
            Kind::Array(_) => return Err(SchemaError::NestedList(name)),
            Kind::Map(..) if is_list => return Err(SchemaError::NestedList(name)),
            Kind::Map(keys, values) => self.map(message, schema, [keys, values])?,
            Kind::Struct(fields) => self.structure(message, defined, &name, schema, fields)?,
            _ => self.scalar(schema),
        };
        Ok(MessageField { label, type_name, name, parameters: parameters(schema) })
    }

    fn scalar(&mut self, schema: &Schema) -> String {
        if let Some(logical) = Logical::of(schema) {
            self.import(logical.file());
            return logical.message().to_owned();
        }
        let Some(wrapper) = Wrapper::of(&schema.kind) else { return String::new() };
        if self.options.wrappers && schema.optional {
            self.import(WRAPPERS_FILE);
            return wrapper.message().to_owned();
        }
        wrapper.scalar().to_owned()
    }

    /// Returns the name of a struct's message, and defines the message beside the field if it is not defined yet.
    fn structure<'s>(
        &mut self,
        message: &mut Message,
        defined: &mut Defined<'s>,
        field: &str,
        schema: &Schema,
        fields: &'s [Field],
    ) -> Result<String, SchemaError> {
        let mut name = self.unqualified(schema);
        if name == field {
            name.push_str("Message");
        }
        match defined.iter().find(|(known, _)| *known == name) {
            Some((_, known)) if *known == fields => return Ok(name),
            Some(_) => return Err(SchemaError::Redefined(name)),
            None if name == message.name => return Err(SchemaError::Redefined(name)),
            None => defined.push((name.clone(), fields)),
        }
        let members = fields.iter().map(|field| (field.name.as_str(), &*field.schema));
        let nested = self.message(name.clone(), members)?;
        message.nested.push(nested);
        Ok(name)
    }

    /// Defines the message of a map's entry and returns its name.
    fn map(
        &mut self,
        message: &mut Message,
        schema: &Schema,
        [keys, values]: [&Schema; 2],
    ) -> Result<String, SchemaError> {
        let name = format!("{}Entry", upper_camel(&self.unqualified(schema)));
        let mut entry = self.message(name.clone(), [("key", keys), ("value", values)].into_iter())?;
        for field in entry.fields.iter_mut().filter(|field| field.label == Some(OPTIONAL)) {
            field.label = None;
        }
        message.nested.push(entry);
        Ok(name)
    }

    /// Returns the part of a schema's name after the last period.
    fn unqualified(&mut self, schema: &Schema) -> String {
        let name = match names::said(schema) {
            Some(name) => name.to_owned(),
            None => self.next_default(),
        };
        let simple = name.rsplit('.').next().unwrap_or_default();
        scrubbed(simple, self.options).into_owned()
    }

    fn next_default(&mut self) -> String {
        self.unnamed = self.unnamed.saturating_add(1);
        names::default(self.unnamed)
    }

    fn import(&mut self, file: &'static str) {
        if !self.imports.contains(&file) {
            self.imports.push(file);
        }
    }
}

fn parameters(schema: &Schema) -> Vec<(&'static str, String)> {
    if Logical::of(schema) == Some(Logical::Decimal) {
        let known = |name: &str| {
            schema.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let precision = known("connect.decimal.precision").map(|value| ("precision", value));
        return precision.into_iter().chain(known("scale").map(|value| ("scale", value))).collect();
    }
    match schema.kind {
        _ if Logical::of(schema).is_some() => Vec::new(),
        Kind::Int8 => vec![("connect.type", "int8".to_owned())],
        Kind::Int16 => vec![("connect.type", "int16".to_owned())],
        _ => Vec::new(),
    }
}

/// Checks that no two fields or nested messages of a message have the same name.
fn check_scope(message: &Message) -> Result<(), SchemaError> {
    let fields = message.fields.iter().map(|field| field.name.as_str());
    let nested = message.nested.iter().map(|nested| nested.name.as_str());
    let mut names: Vec<&str> = fields.chain(nested).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair.first() == pair.last()) {
        Some([name, ..]) => Err(SchemaError::Redefined((*name).to_owned())),
        _ => Ok(()),
    }
}

/// Returns `a_map` as `AMap`; a name without underscores is unchanged.
fn upper_camel(name: &str) -> String {
    if !name.contains('_') {
        return name.to_owned();
    }
    let capitalised = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|first| first.to_ascii_uppercase());
        first.into_iter().chain(letters.map(|letter| letter.to_ascii_lowercase())).collect::<String>()
    };
    name.split('_').map(capitalised).collect()
}
