//! Transform `ToLogicalTopicRouter`.

use std::borrow::Cow;
use std::sync::Arc;

use super::unwrap::is_change_event;
use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::expression::Renaming;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::key_field::KeyField;
use crate::transform::settings::Settings;
use crate::{Field, Kind, NameAdjustment, Refused, Schema, Value};

/// Transform `ToLogicalTopicRouter`, formerly `ByLogicalTableRouter`, which sends several tables to one topic and adds a
/// field to their keys that distinguishes them.
#[derive(Debug)]
pub(in crate::transform) struct ToLogicalTopicRouter {
    topic: Renaming,
    /// Field that is added to keys.
    key_field: Option<KeyField>,
    names: NameAdjustment,
    keys: PerSchema<Arc<Schema>>,
    envelopes: PerSchema<Arc<Schema>>,
}

impl ToLogicalTopicRouter {
    /// Reads the options; `key_field` is the default name of the field that distinguishes the tables.
    pub(in crate::transform) fn read(
        settings: &mut Settings<'_, '_>,
        key_field: &str,
    ) -> Result<Self, Refused> {
        let topic = Renaming::read(settings, "topic.regex", "topic.replacement");
        let key_field = KeyField::read(settings, key_field)?;
        Ok(Self {
            topic: topic?,
            key_field,
            names: settings.name_adjustment("schema.name.adjustment.mode"),
            keys: PerSchema::default(),
            envelopes: PerSchema::default(),
        })
    }

    fn key_schema(&self, schema: &Schema, topic: &str) -> Result<Arc<Schema>, Problem> {
        let added = self.key_field.iter();
        let added = added.map(|field| Field::new(field.name(), Arc::new(Schema::new(Kind::String))));
        let fields = structs::fields(schema).iter().cloned().chain(added).collect();
        let widened = structs::struct_with(schema, fields)?.optional(schema.optional);
        Ok(Arc::new(self.named(widened, topic, "Key")))
    }

    /// Returns the event's schema, named after the new topic. The two rows share one schema, as in Debezium.
    fn envelope_schema(&self, schema: &Schema, topic: &str) -> Result<Arc<Schema>, Problem> {
        let row = structs::position(schema, "before").or_else(|| structs::position(schema, "after"));
        let row = row.and_then(|position| structs::fields(schema).get(position));
        let row = row.map(|row| {
            let fields = structs::fields(&row.schema).to_vec();
            let copy = structs::struct_with(&row.schema, fields)?.optional(row.schema.optional);
            Ok::<_, Problem>(Arc::new(self.named(copy, topic, "Value")))
        });
        let row = row.transpose()?;
        let renamed = structs::fields(schema).iter().map(|field| match (&row, field.name.as_str()) {
            (Some(row), "before" | "after") => Field::new(field.name.clone(), Arc::clone(row)),
            _ => field.clone(),
        });
        let envelope = structs::struct_with(schema, renamed.collect())?.optional(schema.optional);
        Ok(Arc::new(self.named(envelope, topic, "Envelope")))
    }

    fn named(&self, mut schema: Schema, topic: &str, what: &str) -> Schema {
        let name = format!("{topic}.{what}");
        schema.name = Some(Cow::Owned(self.names.schema_name(&name).into_owned()));
        schema
    }
}

impl Transform for ToLogicalTopicRouter {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(topic) = self.topic.rename(&record.topic)?.filter(|topic| !topic.is_empty()) else {
            return Ok(Some(record));
        };
        if let Some(mut taken) = Side::Key.take_unless_null(&mut record)? {
            let schema = self.keys.get(&taken.schema, |schema| self.key_schema(schema, &topic))?;
            if let Some(field) = &self.key_field {
                taken.values.push(Value::Str(field.content(&record.topic)?));
            }
            record.key = Datum::new(Arc::clone(&schema), Value::Struct(taken.values));
        }
        if is_change_event(&record.value)
            && let Some(schema) = &record.value.schema
        {
            let renamed = self.envelopes.get(schema, |schema| self.envelope_schema(schema, &topic))?;
            record.value.schema = Some(Arc::clone(&renamed));
        }
        record.topic = Cow::Owned(topic);
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.topic.rename(&record.topic).is_ok_and(|topic| topic.is_none_or(|topic| topic.is_empty()))
    }
}
