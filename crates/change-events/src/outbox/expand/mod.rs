//! JSON expansion: payload text becomes a structure, as Debezium's `JsonSchemaData` makes it.

mod known;
mod room;
mod shape;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

pub(super) use known::KnownSchemas;

use room::Room;
use shape::Shape;

use connect_data::{NameAdjustment, OptionReader, Schema, Value};

pub(super) const LOSSLESS: &str = "table.expand.json.lossless";

/// `table.expand.json.payload=true`: JSON text becomes a Connect structure (Debezium's `JsonSchemaData`).
///
/// Where Debezium's structure would lose data or would not match its own schema (numbers beyond 64 bits,
/// arrays at the top, objects of an array that differ inside, members whose field has another name), the data
/// is retained here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonExpansion {
    /// `table.json.payload.null.behavior` (ignore)
    pub null: NullBehavior,
    /// `table.json.payload.empty.array.behavior` (ignore)
    pub empty_array: EmptyArrayBehavior,
    /// `table.expand.json.lossless` (false), an option of outboxd: the JSON is written as it is in the row,
    /// with every digit, null and empty array. It then has no structure, and so no schema.
    pub lossless: bool,
    /// The transform's own `field.name.adjustment.mode` (none): the conversion of members' names to fields'
    /// names.
    pub names: NameAdjustment,
}

/// `table.json.payload.null.behavior`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullBehavior {
    /// Fields that are null are ignored.
    Ignore,
    /// Such fields are retained, as optional `BYTES`.
    OptionalBytes,
}

/// `table.json.payload.empty.array.behavior`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EmptyArrayBehavior {
    /// Fields that are empty arrays are ignored.
    Ignore,
    /// Such fields are retained, as arrays of optional `STRING`.
    OptionalString,
}

/// A payload before its conversion.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shaped<'a> {
    /// The schema; `None` where Debezium loses it.
    pub(super) schema: Option<Arc<Schema>>,
    pub(super) value: Value<'a>,
}

/// Reason why JSON has no structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unexpandable {
    /// No schema describes it: an array of different types, an empty field name, elements that do not fit one
    /// schema.
    Undescribable,
    /// Its structure would be much larger than its text.
    TooLarge,
}

/// The result of expanding a payload's text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expanded<'a> {
    /// A structure.
    Structure { schema: Arc<Schema>, value: Value<'a> },
    /// The JSON itself, without trailing text. `length` is in bytes.
    Verbatim { length: usize },
    /// `[]`, for which no schema can be inferred; the text is not changed.
    EmptyArray,
    /// No structure: the text is no object or array, or is [`Unexpandable`]; it is not changed.
    Not,
}

impl JsonExpansion {
    /// Reads the options; returns `None` if the expansion is disabled.
    pub(super) fn read(options: &mut OptionReader<'_>) -> Option<Self> {
        let nulls = [("ignore", NullBehavior::Ignore), ("optional_bytes", NullBehavior::OptionalBytes)];
        let arrays =
            [("ignore", EmptyArrayBehavior::Ignore), ("optional_string", EmptyArrayBehavior::OptionalString)];
        let null = options.one_of("table.json.payload.null.behavior", &nulls, NullBehavior::Ignore);
        let key = "table.json.payload.empty.array.behavior";
        let empty_array = options.one_of(key, &arrays, EmptyArrayBehavior::Ignore);
        let on = options.boolean("table.expand.json.payload", false);
        let lossless = options.boolean(LOSSLESS, false);
        if lossless && !on {
            options.refuse(LOSSLESS, "true", "table.expand.json.payload=true must be set with it");
        }
        let names = NameAdjustment::read(options, "field.name.adjustment.mode");
        on.then_some(Self { null, empty_array, lossless, names })
    }

    /// Expands the text of a column or field. As in Jackson, text after the first JSON value is ignored.
    pub(super) fn expand<'a>(self, column: &str, text: &'a str, known: &mut KnownSchemas) -> Expanded<'a> {
        if !text.starts_with(['{', '[']) {
            return Expanded::Not;
        }
        if !self.lossless
            && let Some((schema, value)) = known.read(self, column, text)
        {
            return Expanded::Structure { schema, value };
        }
        let expanded = self.infer(column, text);
        if let Expanded::Structure { schema, .. } = &expanded {
            known.remember(column, text, schema);
        }
        expanded
    }

    fn infer(self, column: &str, text: &str) -> Expanded<'static> {
        let mut documents = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let Some(Ok(document)) = documents.next() else { return Expanded::Not };
        if self.lossless {
            return Expanded::Verbatim { length: documents.byte_offset() };
        }
        match structure(self, Some(column), &document, text.len()) {
            Ok(Some((schema, value))) => Expanded::Structure { schema: Arc::new(schema), value },
            Ok(None) => Expanded::EmptyArray,
            Err(Unexpandable::Undescribable | Unexpandable::TooLarge) => Expanded::Not,
        }
    }
}

impl Expanded<'_> {
    fn into_owned(self) -> Expanded<'static> {
        match self {
            Self::Structure { schema, value } => Expanded::Structure { schema, value: value.into_owned() },
            Self::Verbatim { length } => Expanded::Verbatim { length },
            Self::EmptyArray => Expanded::EmptyArray,
            Self::Not => Expanded::Not,
        }
    }
}

/// The parameters of a payload's expansion.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shaping<'s> {
    pub(super) expansion: Option<JsonExpansion>,
    /// The name of the column or field. `schema` is its schema.
    pub(super) name: &'s str,
    pub(super) schema: &'s Arc<Schema>,
    pub(super) enveloped: bool,
    /// True if the converter does not read schemas.
    pub(super) ignore_schemas: bool,
}

impl Shaping<'_> {
    /// Expands a payload that is text, if the expansion is enabled; any other payload is not changed. Where
    /// Debezium's structure does not match its own schema, converters that read the schema fail in Debezium;
    /// those that `ignore_schemas` get the text.
    pub(super) fn shape<'a>(self, payload: Value<'a>, known: &mut KnownSchemas) -> Shaped<'a> {
        let schema = Some(Arc::clone(self.schema));
        let expanded = match (self.expansion, &payload) {
            (Some(expansion), Value::Str(Cow::Borrowed(text))) => expansion.expand(self.name, text, known),
            (Some(expansion), Value::Str(text)) => expansion.expand(self.name, text, known).into_owned(),
            _ => return Shaped { schema, value: payload },
        };
        match (expanded, &payload) {
            (Expanded::Structure { value, .. }, _)
                if self.ignore_schemas && !self.enveloped && is_beyond_debezium(&value) =>
            {
                Shaped { schema, value: payload }
            }
            (Expanded::Structure { schema, value }, _) => Shaped { schema: Some(schema), value },
            (Expanded::Verbatim { length }, Value::Str(text)) => {
                let json = Cow::Owned(text.get(..length).unwrap_or(text).to_owned());
                Shaped { schema, value: Value::Json(json) }
            }
            // Debezium loses the schema here.
            (Expanded::EmptyArray, _) if !self.enveloped => Shaped { schema: None, value: payload },
            _ => Shaped { schema, value: payload },
        }
    }
}

/// Reports whether Debezium's expansion fails: a list at the top, or a number that no Connect type
/// represents.
fn is_beyond_debezium(value: &Value<'_>) -> bool {
    matches!(value, Value::Array(_)) || holds_digits(value)
}

fn holds_digits(value: &Value<'_>) -> bool {
    match value {
        Value::Json(_) => true,
        Value::Array(items) | Value::Struct(items) => items.iter().any(holds_digits),
        _ => false,
    }
}

/// Infers the schema and value of a JSON document from a text of this length in bytes. Returns `None` if the
/// whole document is ignored. The outermost struct has the name of the column, if there is one.
pub(super) fn structure(
    expansion: JsonExpansion,
    column: Option<&str>,
    document: &serde_json::Value,
    text_length: usize,
) -> Result<Option<(Schema, Value<'static>)>, Unexpandable> {
    let Some(shape) = Shape::of(expansion, document)? else { return Ok(None) };
    let mut room = Room::of_text(text_length);
    let schema = shape.schema(column, &mut room)?;
    let value = value::fit(expansion, document, &shape, &mut room)?;
    Ok(Some((schema, value)))
}
