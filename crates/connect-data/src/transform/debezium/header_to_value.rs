//! Transform `HeaderToValue`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::kafka::headers::{Operation, pairs};
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value};

/// Maximum number of remembered schemas with added fields; beyond it, all are forgotten.
const WIDENED_MAX: usize = 1_000;

/// Transform `HeaderToValue`, which copies headers into fields of the value, or of a struct in it.
#[derive(Debug)]
pub(in crate::transform) struct HeaderToValue {
    /// Headers, and the paths of the fields that they become, with dots between the names.
    pairs: Vec<(String, String)>,
    operation: Operation,
    widened: std::sync::Mutex<Vec<Widened>>,
}

/// Schema, and the same with added fields.
#[derive(Debug)]
struct Widened {
    from: Arc<Schema>,
    added: Added,
    to: Arc<Schema>,
}

/// Headers that were found: the position in `pairs` and the schema of each, in the record's order.
type Added = Vec<(usize, Arc<Schema>)>;

impl HeaderToValue {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let pairs = pairs(settings, "headers", "fields");
        let operation = settings.required_one_of("operation", &Operation::ALL);
        Ok(Self { pairs: pairs?, operation: operation?, widened: std::sync::Mutex::default() })
    }

    /// Returns the headers that become fields, in the record's order, and their values.
    fn found<'a>(&self, record: &SourceRecord<'a>) -> Result<(Added, Vec<Value<'a>>), Problem> {
        let (mut schemas, mut values) = (Vec::new(), Vec::new());
        for header in &record.headers {
            let pair = self.pairs.iter().position(|(name, _)| header.name == name.as_str());
            if let Some(pair) = pair {
                schemas.push((pair, header.datum.schema.clone().ok_or(Problem::NoSchema)?));
                values.push(header.datum.value.clone());
            }
        }
        Ok((schemas, values))
    }

    /// Returns the schema with the fields for these headers.
    fn widened(&self, from: &Arc<Schema>, added: &Added) -> Result<Arc<Schema>, Problem> {
        let mut widened = self.widened.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = widened.iter().find(|known| Arc::ptr_eq(&known.from, from) && known.added == *added);
        if let Some(known) = known {
            return Ok(Arc::clone(&known.to));
        }
        if widened.len() >= WIDENED_MAX {
            widened.clear();
        }
        let to = self.widen("", from, added)?;
        widened.push(Widened { from: Arc::clone(from), added: added.clone(), to: Arc::clone(&to) });
        Ok(to)
    }

    /// Adds the fields to the schema of the struct with this path. A struct that gets a field becomes required.
    fn widen(&self, path: &str, from: &Arc<Schema>, added: &Added) -> Result<Arc<Schema>, Problem> {
        let mut widened = Vec::with_capacity(structs::fields(from).len().saturating_add(added.len()));
        for field in structs::fields(from) {
            let inner = self.inner(path, &field.name);
            let is_struct = matches!(field.schema.kind, Kind::Struct(_));
            let schema = match inner.filter(|_| is_struct) {
                Some(inner) => self.widen(&inner, &field.schema, added)?,
                None => Arc::clone(&field.schema),
            };
            widened.push(Field { name: field.name.clone(), schema });
        }
        for (pair, schema) in added {
            if let Some(name) = self.name_in(path, *pair) {
                widened.push(Field { name: name.to_owned(), schema: Arc::clone(schema) });
            }
        }
        for (name, places) in self.created(path, from, added) {
            let of_place = |place: usize| {
                let (pair, schema) = added.get(place)?;
                Some(Field { name: self.second_name(*pair)?.to_owned(), schema: Arc::clone(schema) })
            };
            let fields = places.into_iter().filter_map(of_place).collect();
            widened.push(Field::new(name, Schema::new(Kind::Struct(fields)).optional(true).into()));
        }
        structs::struct_with(from, widened).map(Arc::new)
    }

    /// Returns the structs to create in the value because headers go into them, each with the indexes of these headers in
    /// `added`. Debezium creates them at the top level only.
    fn created(&self, path: &str, from: &Schema, added: &Added) -> Vec<(String, Vec<usize>)> {
        let mut created: Vec<(String, Vec<usize>)> = Vec::new();
        for (place, (pair, _)) in added.iter().enumerate().filter(|_| path.is_empty()) {
            let Some((first, _)) = self.pairs.get(*pair).and_then(|(_, wanted)| wanted.split_once('.'))
            else {
                continue;
            };
            if structs::position(from, first).is_some() {
                continue;
            }
            match created.iter_mut().find(|(name, _)| name == first) {
                Some((_, places)) => places.push(place),
                None => created.push((first.to_owned(), vec![place])),
            }
        }
        created
    }

    /// Returns the name of a header's field in a created struct: the second of its path, as Debezium creates no struct in a
    /// created one.
    fn second_name(&self, pair: usize) -> Option<&str> {
        self.pairs.get(pair)?.1.split('.').nth(1)
    }

    /// Returns the values of the struct with this path, followed by those of the headers.
    fn put<'a>(
        &self,
        path: &str,
        from: &Schema,
        mut values: Vec<Value<'a>>,
        added: (&Added, &[Value<'a>]),
    ) -> Result<Vec<Value<'a>>, Problem> {
        for (field, value) in structs::fields(from).iter().zip(&mut values) {
            let Some(inner) = self.inner(path, &field.name) else { continue };
            *value = match std::mem::replace(value, Value::Null) {
                Value::Struct(values) => Value::Struct(self.put(&inner, &field.schema, values, added)?),
                Value::Null => return Err(Problem::RequiredNull(field.name.clone())),
                _ => return Err(Problem::NotAStruct("value")),
            };
        }
        let (headers, given) = added;
        let placed = headers.iter().zip(given).filter(|((pair, _), _)| self.name_in(path, *pair).is_some());
        values.extend(placed.map(|(_, value)| value.clone()));
        for (_, places) in self.created(path, from, headers) {
            let inner = places.into_iter().filter_map(|place| given.get(place).cloned());
            values.push(Value::Struct(inner.collect()));
        }
        Ok(values)
    }

    /// Returns the path of a field of the struct with this path, if the field of a header is in it at any depth.
    fn inner(&self, path: &str, field: &str) -> Option<String> {
        let inner = format!("{path}{field}.");
        self.pairs.iter().any(|(_, wanted)| wanted.starts_with(&inner)).then_some(inner)
    }

    /// Returns the name of a header's field, if it belongs to the struct with this path.
    fn name_in(&self, path: &str, pair: usize) -> Option<&str> {
        let (_, wanted) = self.pairs.get(pair)?;
        wanted.strip_prefix(path).filter(|name| !name.contains('.'))
    }
}

impl Transform for HeaderToValue {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if Side::Value.is_null(&record) {
            return Ok(Some(record));
        }
        let (added, given) = self.found(&record)?;
        let taken = Side::Value.take(&mut record)?;
        if added.is_empty() {
            record.value = Datum::new(taken.schema, Value::Struct(taken.values));
            return Ok(Some(record));
        }
        let schema = self.widened(&taken.schema, &added)?;
        let values = self.put("", &taken.schema, taken.values, (&added, &given))?;
        if self.operation == Operation::Move {
            let is_moved = |name: &str| self.pairs.iter().any(|(header, _)| header == name);
            record.headers.retain(|header| !is_moved(&header.name));
        }
        record.value = Datum::new(schema, Value::Struct(values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        let is_named = |name: &str| self.pairs.iter().any(|(header, _)| header == name);
        self.operation == Operation::Copy || !record.headers.iter().any(|header| is_named(&header.name))
    }
}
