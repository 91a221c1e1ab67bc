//! Schemas of earlier payloads: a payload of the same structure is read directly into values, without a tree
//! of its JSON.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::value::number;
use super::{EmptyArrayBehavior, JsonExpansion, NullBehavior};
use connect_data::{Field, Kind, Schema, Value};

/// Number of schemas that are stored. An outbox has a few types of events, some with members that may be
/// null.
const REMEMBERED_MAX: usize = 8;
/// Length of the longest payload that is looked up and stored, in bytes; it limits the memory of the stored
/// schemas.
const TEXT_MAX: usize = 1 << 14;

/// The schemas of earlier payloads, the latest first.
#[derive(Debug, Default)]
pub(in crate::outbox) struct KnownSchemas(Vec<Known>);

#[derive(Debug)]
struct Known {
    /// The column, whose name is the first part of the names of structs.
    column: String,
    schema: Arc<Schema>,
}

impl KnownSchemas {
    /// Reads a JSON text if a stored schema is exactly the one that would be inferred for it. Returns `None`
    /// at any difference: an additional or missing member, a wider integer, array elements that differ.
    pub(super) fn read<'a>(
        &mut self,
        expansion: JsonExpansion,
        column: &str,
        text: &'a str,
    ) -> Option<(Arc<Schema>, Value<'a>)> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (index, value) = self.0.iter().enumerate().find_map(|(index, known)| {
            if known.column != column {
                return None;
            }
            let fit = Fit { expansion, schema: &known.schema };
            // As in the inference of a schema, trailing text is ignored.
            Some((index, fit.deserialize(&mut serde_json::Deserializer::from_str(text)).ok()?))
        })?;
        self.0.get_mut(..=index)?.rotate_right(1);
        Some((Arc::clone(&self.0.first()?.schema), value))
    }

    /// Stores the schema of a text.
    pub(super) fn remember(&mut self, column: &str, text: &str, schema: &Arc<Schema>) {
        if text.len() > TEXT_MAX {
            return;
        }
        self.0.truncate(REMEMBERED_MAX - 1);
        self.0.insert(0, Known { column: column.to_owned(), schema: Arc::clone(schema) });
    }
}

/// A deserializer of JSON for which exactly this schema would be inferred.
#[derive(Clone, Copy)]
struct Fit<'s> {
    expansion: JsonExpansion,
    schema: &'s Schema,
}

impl<'de> DeserializeSeed<'de> for Fit<'_> {
    type Value = Value<'de>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value<'de>, D::Error> {
        if !self.schema.optional {
            // The schema was merged from several elements.
            return Err(differs());
        }
        match &self.schema.kind {
            Kind::String => json.deserialize_str(self),
            Kind::Boolean => json.deserialize_bool(self),
            Kind::Array(_) => json.deserialize_seq(self),
            Kind::Struct(_) => json.deserialize_map(self),
            kind => self.scalar(kind, raw(json)?).ok_or_else(differs),
        }
    }
}

impl Fit<'_> {
    fn scalar<'de>(self, kind: &Kind, json: &'de str) -> Option<Value<'de>> {
        if json == "null" {
            let is_kept = *kind == Kind::Bytes && self.expansion.null == NullBehavior::OptionalBytes;
            return is_kept.then_some(Value::Null);
        }
        if !json.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
            return None;
        }
        let (actual, value) = number(json);
        // `serde_json` normalizes exponents, which is visible where the digits are retained.
        let is_reformed = matches!(&value, Value::Json(digits) if digits.contains(['e', 'E']));
        (actual == *kind && !is_reformed).then_some(value)
    }

    /// Reports whether a member with this value is ignored, so that it has no field.
    fn is_excluded(self, json: &str) -> bool {
        match json {
            "null" => self.expansion.null == NullBehavior::Ignore,
            _ => self.expansion.empty_array == EmptyArrayBehavior::Ignore && is_empty_array(json),
        }
    }
}

impl<'de> Visitor<'de> for Fit<'_> {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.schema.kind)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::str(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Str(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut json: A) -> Result<Value<'de>, A::Error> {
        let Kind::Array(element) = &self.schema.kind else { return Err(differs()) };
        let mut items = Vec::new();
        while let Some(item) = json.next_element_seed(Fit { schema: element, ..self })? {
            items.push(item);
        }
        let is_inferred = !items.is_empty()
            || element.kind == Kind::String
                && self.expansion.empty_array == EmptyArrayBehavior::OptionalString;
        if is_inferred { Ok(Value::Array(items)) } else { Err(differs()) }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut json: A) -> Result<Value<'de>, A::Error> {
        let Kind::Struct(fields) = &self.schema.kind else { return Err(differs()) };
        let mut values = Vec::with_capacity(fields.len());
        let mut expected = fields.iter();
        while let Some(member) = json.next_key_seed(Name)? {
            let name = self.expansion.names.field_name(&member);
            let next = expected.as_slice().first();
            if let Some(field) = next.filter(|field| field.name == name) {
                expected.next();
                values.push(json.next_value_seed(Fit { schema: &field.schema, ..self })?);
            } else if member.is_empty()
                || has_field(fields, &name)
                || !self.is_excluded(raw_value(&mut json)?)
            {
                return Err(differs());
            }
        }
        if expected.as_slice().is_empty() { Ok(Value::Struct(values)) } else { Err(differs()) }
    }
}

/// Reports whether a field of this name exists. A member may occur twice; then its last value counts.
fn has_field(fields: &[Field], name: &str) -> bool {
    fields.iter().any(|field| field.name == name)
}

fn raw<'de, D: Deserializer<'de>>(json: D) -> Result<&'de str, D::Error> {
    <&RawValue as serde::Deserialize>::deserialize(json).map(RawValue::get)
}

fn raw_value<'de, A: MapAccess<'de>>(json: &mut A) -> Result<&'de str, A::Error> {
    json.next_value::<&RawValue>().map(RawValue::get)
}

fn is_empty_array(json: &str) -> bool {
    let inside = json.strip_prefix('[').and_then(|json| json.strip_suffix(']'));
    inside.is_some_and(|inside| inside.trim_ascii().is_empty())
}

fn differs<E: Error>() -> E {
    E::custom("another structure")
}

/// A member's name.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Cow<'de, str>, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Cow<'de, str>, E> {
        Ok(Cow::Owned(text.to_owned()))
    }
}
