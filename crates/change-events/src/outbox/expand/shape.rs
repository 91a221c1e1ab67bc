//! Structures of JSON values.

use std::borrow::Cow;
use std::hash::RandomState;
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;
use serde_json::{Map, Value as Json};

use super::room::Room;
use super::{EmptyArrayBehavior, JsonExpansion, NullBehavior, Unexpandable};
use connect_data::{Field, Kind, NameAdjustment, Schema};

/// The structure of a JSON value: its schema without the names of structs, and with fields that are found by
/// name. So the time to merge the objects of an array grows with their members, not with the product of
/// members and fields.
#[derive(Debug)]
pub(super) struct Shape<'j> {
    pub(super) form: Form<'j>,
    optional: bool,
}

#[derive(Debug)]
pub(super) enum Form<'j> {
    /// A kind without elements or fields.
    Scalar(Kind),
    /// The shape of the elements.
    Array(Box<Shape<'j>>),
    /// The fields, in their order.
    Struct(Fields<'j>),
}

/// Map with random hash keys, so that a writer cannot choose names that collide.
pub(super) type Fields<'j> = IndexMap<Cow<'j, str>, Shape<'j>, RandomState>;

impl<'j> Shape<'j> {
    /// Infers the shape of a JSON value. Returns `None` if the value is ignored.
    pub(super) fn of(expansion: JsonExpansion, json: &'j Json) -> Result<Option<Self>, Unexpandable> {
        Ok(Some(match json {
            Json::String(_) => Self::scalar(Kind::String),
            Json::Bool(_) => Self::scalar(Kind::Boolean),
            Json::Number(number) => Self::scalar(number_kind(number)),
            Json::Object(members) => Self::optional(Form::Struct(fields(expansion, members)?)),
            Json::Array(items) if items.is_empty() => match expansion.empty_array {
                EmptyArrayBehavior::Ignore => return Ok(None),
                EmptyArrayBehavior::OptionalString => Self::array(Self::scalar(Kind::String)),
            },
            Json::Array(items) => Self::array(element(expansion, items)?),
            Json::Null => match expansion.null {
                NullBehavior::Ignore => return Ok(None),
                NullBehavior::OptionalBytes => Self::scalar(Kind::Bytes),
            },
        }))
    }

    /// Builds the schema. `key` is the dotted path that names structs; it is `None` below an array in an
    /// array, where Debezium starts with an empty path.
    pub(super) fn schema(&self, key: Option<&str>, room: &mut Room) -> Result<Schema, Unexpandable> {
        let kind = match &self.form {
            Form::Scalar(kind) => kind.clone(),
            Form::Array(element) => {
                let key = key.filter(|_| matches!(element.form, Form::Struct(_)));
                Kind::Array(Arc::new(element.schema(key, room)?))
            }
            Form::Struct(fields) => {
                let fields = fields.iter().map(|(name, field)| {
                    let path = field.path(key, name);
                    Ok(Field::new(&**name, Arc::new(field.schema(path.as_deref(), room)?)))
                });
                Kind::Struct(fields.collect::<Result<_, _>>()?)
            }
        };
        let mut schema = Schema::new(kind).optional(self.optional);
        if let (Form::Struct(_), Some(key)) = (&self.form, key) {
            room.name(key)?;
            schema.name = Some(Cow::Owned(key.to_owned()));
        }
        Ok(schema)
    }

    /// Returns the path to the field of this name, or `None` for a scalar, which needs no path.
    fn path<'n>(&self, key: Option<&str>, name: &'n str) -> Option<Cow<'n, str>> {
        match (&self.form, key) {
            (Form::Scalar(_), _) => None,
            (_, None) => Some(Cow::Borrowed(name)),
            (_, Some(key)) => Some(Cow::Owned(format!("{key}.{name}"))),
        }
    }

    /// Merges another element of the same array: adds its fields, and replaces an unknown type by a known
    /// one. Returns whether the other element had exactly this form.
    fn merge(&mut self, other: Self) -> Result<bool, Unexpandable> {
        match (&mut self.form, other.form) {
            (Form::Scalar(known), Form::Scalar(new)) if *known == new => Ok(true),
            (Form::Scalar(Kind::Bytes), new) => {
                self.form = new;
                Ok(false)
            }
            (_, Form::Scalar(Kind::Bytes)) => Ok(false),
            (Form::Struct(known), Form::Struct(new)) => merge_fields(known, new),
            (Form::Array(known), Form::Array(new)) => {
                let is_same = known.optional == new.optional;
                Ok(known.merge(*new)? && is_same)
            }
            _ => Err(Unexpandable::Undescribable),
        }
    }

    const fn scalar(kind: Kind) -> Self {
        Self::optional(Form::Scalar(kind))
    }

    fn array(element: Self) -> Self {
        Self::optional(Form::Array(Box::new(element)))
    }

    const fn optional(form: Form<'j>) -> Self {
        Self { form, optional: true }
    }
}

fn fields(expansion: JsonExpansion, members: &Map<String, Json>) -> Result<Fields<'_>, Unexpandable> {
    let mut fields = Fields::with_capacity_and_hasher(members.len(), RandomState::new());
    for (name, member) in members {
        if name.is_empty() {
            return Err(Unexpandable::Undescribable);
        }
        if let Some(shape) = Shape::of(expansion, member)? {
            let before = fields.insert(expansion.names.field_name(name), shape);
            // The adjustment may give two members the same name.
            if before.is_some() && expansion.names != NameAdjustment::None {
                return Err(Unexpandable::Undescribable);
            }
        }
    }
    Ok(fields)
}

/// Returns the kind of a number: the smallest that Jackson has for it.
fn number_kind(number: &serde_json::Number) -> Kind {
    match number.as_i64() {
        Some(integer) if i32::try_from(integer).is_ok() => Kind::Int32,
        Some(_) => Kind::Int64,
        None => Kind::Float64,
    }
}

/// Infers the common shape of an array's elements.
fn element(expansion: JsonExpansion, items: &[Json]) -> Result<Shape<'_>, Unexpandable> {
    let undescribable = Unexpandable::Undescribable;
    let Some(first) = items.iter().find(|item| !item.is_null()) else {
        return Shape::of(expansion, &Json::Null)?.ok_or(undescribable);
    };
    let present = || items.iter().filter(|item| !item.is_null());
    if !present().all(|item| is_same_kind(first, item)) {
        return Err(undescribable);
    }
    if !first.is_object() {
        return Shape::of(expansion, first)?.ok_or(undescribable);
    }
    let holds_null = present().count() < items.len();
    let mut merged: Option<Shape<'_>> = None;
    for item in present() {
        let Some(shape) = Shape::of(expansion, item)? else { continue };
        match &mut merged {
            None => merged = Some(shape),
            Some(before) => {
                if !before.merge(shape)? {
                    // A schema that Debezium has merged is not optional; it must be optional if an element is
                    // null.
                    before.optional = holds_null;
                }
            }
        }
    }
    merged.ok_or(undescribable)
}

/// Reports whether both are of one of Jackson's node types, where integers and floating point numbers differ.
fn is_same_kind(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => number_kind(left) == number_kind(right),
        _ => std::mem::discriminant(left) == std::mem::discriminant(right),
    }
}

/// Merges fields. Returns whether the new fields are exactly the known ones, in the same order.
fn merge_fields<'j>(known: &mut Fields<'j>, new: Fields<'j>) -> Result<bool, Unexpandable> {
    let mut is_same = known.len() == new.len();
    for (place, (name, field)) in new.into_iter().enumerate() {
        match known.entry(name) {
            Entry::Occupied(mut before) => {
                is_same &= before.index() == place && before.get().optional == field.optional;
                is_same &= before.get_mut().merge(field)?;
            }
            Entry::Vacant(free) => {
                free.insert(field);
                is_same = false;
            }
        }
    }
    Ok(is_same)
}
