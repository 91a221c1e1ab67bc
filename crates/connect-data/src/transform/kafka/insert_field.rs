//! Transform `InsertField`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value};

const TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";

/// Transform `InsertField`, which adds fields with metadata of the record, or a constant.
#[derive(Debug)]
pub(in crate::transform) struct InsertField {
    side: Side,
    fields: Vec<Inserted>,
    replace_null_with_default: bool,
    schemas: PerSchema<Arc<Schema>>,
}

/// New field. The text of its option may end in `!` (required) or `?` (optional, the default).
#[derive(Debug)]
struct Inserted {
    name: String,
    optional: bool,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Topic,
    Partition,
    Timestamp,
    Static(String),
}

impl InsertField {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        if settings.text("offset.field").is_some() {
            return Err(settings.refuse("offset.field", "a record has no offset before it is in Kafka"));
        }
        let mut fields = Vec::new();
        for (option, source) in [
            ("topic.field", Source::Topic),
            ("partition.field", Source::Partition),
            ("timestamp.field", Source::Timestamp),
        ] {
            fields.extend(settings.text(option).map(|text| Inserted::parse(&text, source)));
        }
        let value = settings.raw("static.value");
        if let Some(text) = settings.text("static.field") {
            let Some(value) = value else {
                return Err(settings.refuse("static.value", "static.field needs it"));
            };
            fields.push(Inserted::parse(&text, Source::Static(value)));
        }
        if fields.is_empty() {
            let reason = "it, topic.field, partition.field or timestamp.field must be given";
            return Err(settings.refuse("static.field", reason));
        }
        Ok(Self { side, fields, replace_null_with_default, schemas: PerSchema::default() })
    }

    fn schema(&self, schema: &Schema) -> Result<Arc<Schema>, Problem> {
        let added = self.fields.iter().map(|field| Field::new(field.name.clone(), Arc::new(field.schema())));
        let fields = structs::fields(schema).iter().cloned().chain(added).collect();
        structs::struct_with(schema, fields).map(Arc::new)
    }
}

impl Inserted {
    fn parse(text: &str, source: Source) -> Self {
        let (name, optional) = match (text.strip_suffix('!'), text.strip_suffix('?')) {
            (Some(name), _) => (name, false),
            (None, Some(name)) => (name, true),
            (None, None) => (text, true),
        };
        Self { name: name.to_owned(), optional, source }
    }

    fn schema(&self) -> Schema {
        match self.source {
            Source::Topic | Source::Static(_) => Schema::new(Kind::String),
            Source::Partition => Schema::new(Kind::Int32),
            Source::Timestamp => Schema::named(Kind::Int64, TIMESTAMP),
        }
        .optional(self.optional)
    }

    fn value<'a>(&'a self, record: &SourceRecord<'a>) -> Value<'a> {
        match &self.source {
            Source::Topic => Value::Str(record.topic.clone()),
            Source::Partition => record.partition.map_or(Value::Null, Value::Int32),
            Source::Timestamp => record.timestamp_ms.map_or(Value::Null, Value::Date),
            Source::Static(text) => Value::str(text),
        }
    }
}

impl Transform for InsertField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(mut taken) = self.side.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let schema = self.schemas.get(&taken.schema, |schema| self.schema(schema))?;
        if self.replace_null_with_default {
            structs::fill_defaults(&taken.schema, &mut taken.values);
        }
        for field in &self.fields {
            let value = field.value(&record);
            if value.is_null() && !field.optional {
                return Err(Problem::RequiredNull(field.name.clone()));
            }
            taken.values.push(value);
        }
        *self.side.of(&mut record) = Datum::new(Arc::clone(&schema), Value::Struct(taken.values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record)
    }
}
