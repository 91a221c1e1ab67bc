//! Transform `ExtractSchemaToNewRecord`.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use super::unwrap::is_change_event;
use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Schema, Value};

const SOURCE_SCHEMA: &str = "sourceSchema";

/// Maximum number of remembered schemas, as in Debezium; beyond it, all are forgotten.
const REMEMBERED_MAX: usize = 10_240;

/// Transform `ExtractSchemaToNewRecord`, which adds the columns of its table to a change event, in `sourceSchema`.
#[derive(Debug)]
pub(in crate::transform) struct ExtractSchemaToNewRecord {
    block: Arc<Schema>,
    extensions: PerSchema<Arc<Extension>>,
    /// Extensions by schema. As in Debezium, all events of equal schemas, such as the shards of one topic, get the table of
    /// the first.
    first_of_equal: Mutex<Vec<(Schema, Arc<Extension>)>>,
}

/// New schema of an event, and the `sourceSchema` that all events of that schema share.
#[derive(Debug)]
struct Extension {
    schema: Arc<Schema>,
    told: Value<'static>,
}

impl ExtractSchemaToNewRecord {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Self {
        // None of the modes changes the names of the added schemas.
        let _checked = settings.name_adjustment("schema.name.adjustment.mode");
        Self { block: Arc::new(block()), extensions: PerSchema::default(), first_of_equal: Mutex::default() }
    }

    fn extension(&self, schema: &Schema, event: &[Value<'_>]) -> Result<Arc<Extension>, Problem> {
        let mut known = self.first_of_equal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, extension)) = known.iter().find(|(equal, _)| equal == schema) {
            return Ok(Arc::clone(extension));
        }
        let mut fields = structs::fields(schema).to_vec();
        fields.push(Field::new(SOURCE_SCHEMA, Arc::clone(&self.block)));
        let extended = structs::struct_with(schema, fields)?.optional(schema.optional);
        let (_, row) = structs::required(schema, "after")?;
        let columns: Result<_, _> = structs::fields(&row.schema).iter().map(column).collect();
        let table = Value::Struct(vec![Value::Array(columns?)]);
        let told = Value::Struct(vec![table_name(schema, event)?, table]);
        let extension = Arc::new(Extension { schema: Arc::new(extended), told });
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.push((schema.clone(), Arc::clone(&extension)));
        Ok(extension)
    }
}

impl Transform for ExtractSchemaToNewRecord {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        let (Some(schema), Value::Struct(event)) = (&record.value.schema, &mut record.value.value) else {
            return Ok(Some(record));
        };
        if !has_row(schema, event)? {
            return Ok(Some(record));
        }
        let extension = self.extensions.get(schema, |schema| self.extension(schema, event))?;
        structs::fill_defaults(schema, event);
        let mut event = std::mem::take(event);
        event.push(extension.told.clone());
        record.value = Datum::new(Arc::clone(&extension.schema), Value::Struct(event));
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Reports whether the event has a row; a TRUNCATE has none.
fn has_row(schema: &Schema, event: &[Value<'_>]) -> Result<bool, Problem> {
    let is_there = |name| -> Result<bool, Problem> {
        let (position, _) = structs::required(schema, name)?;
        Ok(event.get(position).is_some_and(|row| !row.is_null()))
    };
    Ok(is_there("after")? | is_there("before")?)
}

fn table_name(schema: &Schema, event: &[Value<'_>]) -> Result<Value<'static>, Problem> {
    let (position, source) = structs::required(schema, "source")?;
    let (table, _) = structs::required(&source.schema, "table")?;
    match event.get(position) {
        Some(Value::Struct(source)) => Ok(source.get(table).cloned().unwrap_or(Value::Null).into_owned()),
        _ => Err(Problem::RequiredNull("source".to_owned())),
    }
}

/// Returns the properties that `column.propagate.source.type` has added to the schema of a column.
fn column(field: &Field) -> Result<Value<'static>, Problem> {
    let parameter = |name: &str| {
        let mut all = field.schema.parameters.iter();
        all.find(|(key, _)| key.strip_prefix("__debezium.source.column.") == Some(name)).map(|(_, text)| text)
    };
    let untold = || Problem::UntoldType(field.name.clone());
    let text = |text: &String| Value::Str(Cow::Owned(text.clone()));
    let number = |text: &String| text.parse().map_or(Value::Null, Value::Int32);
    Ok(Value::Struct(vec![
        text(parameter("name").ok_or_else(untold)?),
        text(parameter("type").ok_or_else(untold)?),
        parameter("length").map_or(Value::Null, number),
        parameter("scale").map_or(Value::Null, number),
        parameter("comment").map_or(Value::Null, text),
    ]))
}

/// Returns the schema of `sourceSchema`.
fn block() -> Schema {
    let field = |name, schema: Schema| Field::new(name, Arc::new(schema));
    let column = vec![
        field("name", Schema::new(Kind::String)),
        field("typeName", Schema::new(Kind::String)),
        field("length", Schema::new(Kind::Int32).optional(true)),
        field("scale", Schema::new(Kind::Int32).optional(true)),
        field("comment", Schema::new(Kind::String).optional(true)),
    ];
    let column = Schema::named(Kind::Struct(column), "io.debezium.connector.source.schema.Column");
    let columns = vec![field("columns", Schema::new(Kind::Array(Arc::new(column))))];
    let table = Schema::named(Kind::Struct(columns), "io.debezium.connector.source.schema.Table");
    let block = vec![field("id", Schema::new(Kind::String)), field("table", table)];
    Schema::named(Kind::Struct(block), "io.debezium.connector.source.Schema")
}
