//! Text of a schema as a `.proto` file, exactly as Confluent's converter writes it.

use super::message::{Message, MessageField};
use super::names::full_name;
use super::wrapper::Wrapper;
use super::{ConvertError, ProtobufOptions, SchemaText, unsupported};
use crate::{Kind, Schema};

/// File of Google's wrappers: the schema of a scalar value.
const WRAPPERS: &str = include_str!("wrappers.proto");

/// Returns the text of a schema.
pub(in super::super) fn text(schema: &Schema, options: ProtobufOptions) -> Result<SchemaText, ConvertError> {
    super::accepts(schema)?;
    if !matches!(schema.kind, Kind::Struct(_)) {
        let wrapper = Wrapper::of(&schema.kind).ok_or_else(|| unsupported(schema))?;
        return Ok(SchemaText { text: WRAPPERS.to_owned(), name: Some(wrapper.message().to_owned()) });
    }
    let name = full_name(schema, options);
    let (message, imports) = Message::of(schema, options)?;
    let mut text = "syntax = \"proto3\";\n".to_owned();
    if let Some(package) = &name.package {
        text += &format!("package {package};\n");
    }
    if !imports.is_empty() {
        text.push('\n');
        text.extend(imports.iter().map(|file| format!("import \"{file}\";\n")));
    }
    text.push('\n');
    text += &printed(&message);
    Ok(SchemaText { text, name: Some(name.qualified()) })
}

fn printed(message: &Message) -> String {
    let mut text = format!("message {} {{", message.name);
    if !message.fields.is_empty() {
        text.push('\n');
    }
    for (number, field) in (1_u32..).zip(&message.fields) {
        text += &indented(&printed_field(number, field));
    }
    if !message.nested.is_empty() {
        text.push('\n');
        text.extend(message.nested.iter().map(|nested| indented(&printed(nested))));
    }
    text.push_str("}\n");
    text
}

fn printed_field(number: u32, field: &MessageField) -> String {
    let label = field.label.map(|label| format!("{label} ")).unwrap_or_default();
    let MessageField { type_name, name, .. } = field;
    let parameters = printed_parameters(&field.parameters);
    format!("{label}{type_name} {name} = {number}{parameters};\n")
}

/// Returns the parameters as an option of Confluent. Those of a decimal have the value before the key.
fn printed_parameters(parameters: &[(&str, String)]) -> String {
    if parameters.is_empty() {
        return String::new();
    }
    let printed = |(name, value): &(&str, String)| {
        let (name_line, value_line) = (format!("key: \"{name}\""), format!("value: \"{value}\""));
        match *name {
            "precision" | "scale" => format!("    {{\n      {value_line},\n      {name_line}\n    }}"),
            _ => format!("    {{\n      {name_line},\n      {value_line}\n    }}"),
        }
    };
    let printed: Vec<String> = parameters.iter().map(printed).collect();
    format!(" [(confluent.field_meta) = {{\n  params: [\n{}\n  ]\n}}]", printed.join(",\n"))
}

/// Returns the text with two spaces before each line, including empty lines.
fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}
