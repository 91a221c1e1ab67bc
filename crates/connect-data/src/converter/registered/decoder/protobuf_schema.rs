//! Protobuf schemas for reading.

use std::borrow::Cow;
use std::fmt;

use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
};
use prost_reflect::{DescriptorPool, FieldDescriptor, FileDescriptor, MessageDescriptor};

use super::DecodeError;

/// File name of the schema.
const FILE: &str = "schema.proto";

/// Package of the messages that are part of Protobuf itself.
const GOOGLE: &str = "google.protobuf";

/// Files that `ProtobufConverter` imports and that are not part of Protobuf itself, reduced to what values need.
const IMPORTED: [(&str, &str); 3] = [
    (
        "confluent/type/decimal.proto",
        "syntax = \"proto3\"; package confluent.type; message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }",
    ),
    (
        "google/type/date.proto",
        "syntax = \"proto3\"; package google.type; message Date { int32 year = 1; int32 month = 2; int32 day = 3; }",
    ),
    (
        "google/type/timeofday.proto",
        "syntax = \"proto3\"; package google.type; \
         message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }",
    ),
];

/// A parsed `.proto` file.
#[derive(Debug)]
pub(super) struct ProtobufSchema(FileDescriptor);

impl ProtobufSchema {
    /// Parses a schema's text. Custom options are ignored, because the converter uses some that it does not import.
    pub(super) fn parse(text: &str) -> Result<Self, DecodeError> {
        let mut file = protox_parse::parse(FILE, &without_strange_package(text)).map_err(unusable)?;
        strip(&mut file);
        let is_googles = file.package() == GOOGLE;
        let mut pool = if is_googles { DescriptorPool::new() } else { DescriptorPool::global() };
        for import in &file.dependency {
            if pool.get_file_by_name(import).is_none() {
                pool.add_file_descriptor_proto(imported(import)?).map_err(unusable)?;
            }
        }
        pool.add_file_descriptor_proto(file).map_err(unusable)?;
        pool.get_file_by_name(FILE).map(Self).ok_or_else(|| DecodeError::Schema("it is empty".to_owned()))
    }

    /// Returns the message at these indexes: the index of a message in the file, then of a message nested in it.
    pub(super) fn message(&self, indexes: &[usize]) -> Option<MessageDescriptor> {
        let (first, inner) = indexes.split_first()?;
        let outermost = self.0.messages().nth(*first)?;
        inner.iter().try_fold(outermost, |message, index| message.child_messages().nth(*index))
    }
}

/// Removes a package name that only Java's parser accepts, such as `my-shop.public`. The converter's names are relative to it.
fn without_strange_package(text: &str) -> Cow<'_, str> {
    let is_strange = |line: &str| line.starts_with("package ") && line.contains('-');
    if !text.lines().any(is_strange) {
        return Cow::Borrowed(text);
    }
    text.lines().filter(|line| !is_strange(line)).flat_map(|line| [line, "\n"]).collect()
}

/// Returns an imported file. An unknown file is empty, so that the error names the missing type.
fn imported(name: &str) -> Result<FileDescriptorProto, DecodeError> {
    match IMPORTED.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => protox_parse::parse(name, text).map_err(unusable),
        None => Ok(FileDescriptorProto { name: Some(name.to_owned()), ..FileDescriptorProto::default() }),
    }
}

fn unusable(error: impl std::error::Error) -> DecodeError {
    DecodeError::Schema(crate::error::chain(&error))
}

/// Removes the parts that values do not need, and those that need unknown files.
fn strip(file: &mut FileDescriptorProto) {
    file.options = None;
    file.extension.clear();
    file.service.clear();
    file.enum_type.iter_mut().for_each(strip_enum);
    file.message_type.iter_mut().for_each(strip_message);
}

fn strip_message(message: &mut DescriptorProto) {
    if let Some(options) = &mut message.options {
        options.uninterpreted_option.clear();
    }
    message.extension.clear();
    message.oneof_decl.iter_mut().for_each(|oneof| oneof.options = None);
    let is_map_entry = message.options.as_ref().is_some_and(|options| options.map_entry());
    message.field.iter_mut().for_each(strip_field);
    if !is_map_entry {
        message.field.iter_mut().for_each(tell_apart);
    }
    message.enum_type.iter_mut().for_each(strip_enum);
    message.nested_type.iter_mut().for_each(strip_message);
}

fn strip_field(field: &mut FieldDescriptorProto) {
    if let Some(options) = &mut field.options {
        options.uninterpreted_option.clear();
    }
}

/// Appends the number of a field to its name. Protobuf's own compiler refuses names that differ only in underscores and capitals,
/// which Java's accepts.
fn tell_apart(field: &mut FieldDescriptorProto) {
    field.json_name = None;
    field.name = Some(format!("{}{}", field.name(), suffix(field.number())));
}

fn suffix(number: impl fmt::Display) -> String {
    format!("_f{number}")
}

/// Returns the name of a field as in the schema.
pub(super) fn field_name(field: &FieldDescriptor) -> &str {
    let name = field.name();
    name.strip_suffix(&suffix(field.number())).unwrap_or(name)
}

fn strip_enum(of: &mut EnumDescriptorProto) {
    of.value.iter_mut().for_each(|value| value.options = None);
    if let Some(options) = &mut of.options {
        options.uninterpreted_option.clear();
    }
}
