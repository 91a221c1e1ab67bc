//! Transform `ValueToKey`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value};

/// Transform `ValueToKey`, which creates the key from fields of the value.
#[derive(Debug)]
pub(in crate::transform) struct ValueToKey {
    fields: Vec<String>,
    replace_null_with_default: bool,
    keys: PerSchema<Key>,
}

/// Schema of the key, and the positions of its fields in the value.
#[derive(Debug)]
struct Key {
    schema: Arc<Schema>,
    sources: Vec<usize>,
}

impl ValueToKey {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let fields = settings.required_list("fields")?;
        Ok(Self { fields, replace_null_with_default, keys: PerSchema::default() })
    }

    fn key(&self, schema: &Schema) -> Result<Key, Problem> {
        let found: Result<Vec<_>, _> =
            self.fields.iter().map(|name| structs::required(schema, name)).collect();
        let (sources, fields): (Vec<usize>, Vec<Field>) =
            found?.into_iter().map(|(index, field)| (index, field.clone())).unzip();
        let schema = Arc::new(structs::struct_with(&Schema::new(Kind::Boolean), fields)?);
        Ok(Key { schema, sources })
    }

    /// Returns the key for a map. A missing entry is null.
    fn of_map<'a>(&self, entries: &[(Value<'a>, Value<'a>)]) -> Vec<(Value<'a>, Value<'a>)> {
        let value = |name: &str| {
            let entry = entries.iter().find(|(key, _)| matches!(key, Value::Str(key) if key == name));
            entry.map_or(Value::Null, |(_, value)| value.clone())
        };
        self.fields.iter().map(|name| (Value::Str(name.clone().into()), value(name))).collect()
    }
}

impl Transform for ValueToKey {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let (schema, values) = match (&record.value.schema, &record.value.value) {
            (Some(schema), Value::Struct(values)) => (schema, values),
            (None, Value::Map(entries)) => {
                record.key = Datum { schema: None, value: Value::Map(self.of_map(entries)) };
                return Ok(Some(record));
            }
            _ => return Err(Side::Value.not_a_struct()),
        };
        let key = self.keys.get(schema, |schema| self.key(schema))?;
        let copied = key.sources.iter().zip(structs::fields(&key.schema)).map(|(source, field)| {
            let value = values.get(*source).cloned().unwrap_or(Value::Null);
            if self.replace_null_with_default { structs::or_default(&field.schema, value) } else { value }
        });
        let copied = Value::Struct(copied.collect());
        record.key = Datum::new(Arc::clone(&key.schema), copied);
        Ok(Some(record))
    }
}
