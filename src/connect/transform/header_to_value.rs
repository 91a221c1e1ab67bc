use std::sync::Arc;

use super::Transform;
use super::error::Problem;
use super::headers::{Operation, pairs};
use super::settings::Settings;
use super::side::Side;
use super::structs;
use crate::connect::source_record::{Datum, SourceRecord};
use crate::connect::{Field, Refused, Schema, Value};

/// How many schemas with added fields are remembered. When there are more, all are forgotten.
const WIDENED_MAX: usize = 1_000;

/// `HeaderToValue`: headers become fields of the value.
#[derive(Debug)]
pub(super) struct HeaderToValue {
    /// Headers, and the fields that they become.
    pairs: Vec<(String, String)>,
    operation: Operation,
    widened: std::sync::Mutex<Vec<Widened>>,
}

/// A schema with fields that were added to it.
#[derive(Debug)]
struct Widened {
    from: Arc<Schema>,
    added: Vec<(usize, Option<Arc<Schema>>)>,
    to: Arc<Schema>,
}

impl HeaderToValue {
    pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let pairs = pairs(settings, "headers", "fields");
        let operation = settings.required_one_of("operation", &Operation::ALL);
        let (pairs, operation) = (pairs?, operation?);
        if pairs.iter().any(|(_, field)| field.contains('.')) {
            return Err(settings.refuse("fields", "fields inside other ones are not added here"));
        }
        Ok(Self { pairs, operation, widened: std::sync::Mutex::default() })
    }

    /// The schema with one more field for each header that was found.
    fn widened(
        &self,
        from: &Arc<Schema>,
        added: Vec<(usize, Option<Arc<Schema>>)>,
    ) -> Result<Arc<Schema>, Problem> {
        let mut widened = self.widened.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = widened.iter().find(|known| Arc::ptr_eq(&known.from, from) && known.added == added);
        if let Some(known) = known {
            return Ok(Arc::clone(&known.to));
        }
        if widened.len() >= WIDENED_MAX {
            widened.clear();
        }
        let mut fields = structs::fields(from).to_vec();
        for (pair, schema) in &added {
            let (Some((_, name)), Some(schema)) = (self.pairs.get(*pair), schema) else {
                return Err(Problem::NoSchema);
            };
            fields.push(Field::new(name.clone(), Arc::clone(schema)));
        }
        let to = Arc::new(structs::struct_with(from, fields)?);
        widened.push(Widened { from: Arc::clone(from), added, to: Arc::clone(&to) });
        Ok(to)
    }
}

impl Transform for HeaderToValue {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(mut taken) = Side::Value.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let mut added = Vec::new();
        for header in &record.headers {
            let pair = self.pairs.iter().position(|(name, _)| header.name == name.as_str());
            if let Some(pair) = pair {
                added.push((pair, header.datum.schema.clone()));
                taken.values.push(header.datum.value.clone());
            }
        }
        let schema = if added.is_empty() { taken.schema } else { self.widened(&taken.schema, added)? };
        if self.operation == Operation::Move {
            let is_moved = |name: &str| self.pairs.iter().any(|(header, _)| header == name);
            record.headers.retain(|header| !is_moved(&header.name));
        }
        record.value = Datum::new(schema, Value::Struct(taken.values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        let is_named = |name: &str| self.pairs.iter().any(|(header, _)| header == name);
        self.operation == Operation::Copy || !record.headers.iter().any(|header| is_named(&header.name))
    }
}
