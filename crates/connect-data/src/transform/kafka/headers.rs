//! Transforms `InsertHeader`, `DropHeaders` and `HeaderFrom`.

use std::borrow::Cow;
use std::sync::Arc;

use super::literal;
use crate::source_record::{Datum, DatumHeader, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Refused, Schema, Value};

/// Transform `InsertHeader`, which adds a header to every record.
#[derive(Debug)]
pub(in crate::transform) struct InsertHeader {
    name: String,
    datum: Datum<'static>,
}

/// Transform `DropHeaders`, which removes the headers of these names.
#[derive(Debug)]
pub(in crate::transform) struct DropHeaders(Vec<String>);

/// Transform `HeaderFrom`, which copies fields into headers.
#[derive(Debug)]
pub(in crate::transform) struct HeaderFrom {
    side: Side,
    /// Fields, and the headers that they become.
    pairs: Vec<(String, String)>,
    operation: Operation,
    replace_null_with_default: bool,
    plans: PerSchema<Plan>,
}

/// Treatment of a field or header that is copied elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::transform) enum Operation {
    /// The original is removed.
    Move,
    /// The original stays.
    Copy,
}

impl Operation {
    pub(in crate::transform) const ALL: [(&'static str, Self); 2] =
        [("move", Self::Move), ("copy", Self::Copy)];
}

/// Positions and schemas of the fields, and the struct's schema without them.
#[derive(Debug)]
struct Plan {
    sources: Vec<(usize, Arc<Schema>)>,
    moved: Arc<Schema>,
}

/// Reads two lists of the same length as pairs.
pub(in crate::transform) fn pairs(
    settings: &mut Settings<'_, '_>,
    first: &str,
    second: &str,
) -> Result<Vec<(String, String)>, Refused> {
    let (one, other) = (settings.required_list(first), settings.required_list(second));
    let (one, other) = (one?, other?);
    if one.len() != other.len() {
        return Err(settings.refuse(second, format!("it must have as many names as {first}")));
    }
    Ok(one.into_iter().zip(other).collect())
}

impl InsertHeader {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let name = settings.required("header");
        let Some(text) = settings.raw("value.literal") else {
            return Err(settings.refuse("value.literal", "it must be given"));
        };
        let datum = literal::parse(&text).map_err(|reason| settings.refuse("value.literal", reason))?;
        Ok(Self { name: name?, datum })
    }
}

impl Transform for InsertHeader {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Datum { schema, value } = &self.datum;
        let datum = Datum { schema: schema.clone(), value: value.reborrow() };
        record.headers.push(DatumHeader { name: Cow::Borrowed(&self.name), datum });
        Ok(Some(record))
    }
}

impl DropHeaders {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        settings.required_list("headers").map(Self)
    }
}

impl Transform for DropHeaders {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        record.headers.retain(|header| !self.0.iter().any(|name| header.name == name.as_str()));
        Ok(Some(record))
    }
}

impl HeaderFrom {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let pairs = pairs(settings, "fields", "headers");
        let operation = settings.required_one_of("operation", &Operation::ALL);
        let (pairs, operation) = (pairs?, operation?);
        Ok(Self { side, pairs, operation, replace_null_with_default, plans: PerSchema::default() })
    }

    fn plan(&self, schema: &Schema) -> Result<Plan, Problem> {
        let source = |(name, _): &(String, String)| {
            structs::required(schema, name).map(|(index, field)| (index, Arc::clone(&field.schema)))
        };
        let sources = self.pairs.iter().map(source).collect::<Result<Vec<_>, _>>()?;
        let fields = structs::fields(schema).iter();
        let kept = fields.filter(|field| !self.pairs.iter().any(|(name, _)| *name == field.name)).cloned();
        let moved = Arc::new(structs::struct_with(schema, kept.collect())?);
        Ok(Plan { sources, moved })
    }
}

impl Transform for HeaderFrom {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let mut taken = self.side.take(&mut record)?;
        let plan = self.plans.get(&taken.schema, |schema| self.plan(schema))?;
        let mut schema = Arc::clone(&taken.schema);
        if self.replace_null_with_default && self.operation == Operation::Move {
            structs::fill_defaults(&schema, &mut taken.values);
        }
        for ((index, field), (_, header)) in plan.sources.iter().zip(&self.pairs) {
            let value = taken.values.get(*index).cloned().unwrap_or(Value::Null);
            let value =
                if self.replace_null_with_default { structs::or_default(field, value) } else { value };
            let datum = Datum::new(Arc::clone(field), value);
            record.headers.push(DatumHeader { name: Cow::Borrowed(header), datum });
        }
        if self.operation == Operation::Move {
            let mut index = 0..;
            let is_source = |index: usize| plan.sources.iter().any(|(source, _)| *source == index);
            taken.values.retain(|_| index.next().is_none_or(|index| !is_source(index)));
            schema = Arc::clone(&plan.moved);
        }
        *self.side.of(&mut record) = Datum::new(schema, Value::Struct(taken.values));
        Ok(Some(record))
    }
}
