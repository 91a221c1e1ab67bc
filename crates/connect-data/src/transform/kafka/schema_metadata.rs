//! Transform `SetSchemaMetadata`.

use std::sync::Arc;

use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Refused, Schema, Value};

/// Transform `SetSchemaMetadata`, which changes the name or version of the schema.
#[derive(Debug)]
pub(in crate::transform) struct SetSchemaMetadata {
    side: Side,
    name: Option<String>,
    version: Option<i32>,
    replace_null_with_default: bool,
    named: PerSchema<Arc<Schema>>,
}

impl SetSchemaMetadata {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let (name, version) = (settings.text("schema.name"), settings.number("schema.version")?);
        if name.is_none() && version.is_none() {
            return Err(settings.refuse("schema.name", "it or schema.version must be given"));
        }
        Ok(Self { side, name, version, replace_null_with_default, named: PerSchema::default() })
    }

    fn renamed(&self, schema: &Schema) -> Schema {
        let mut renamed = schema.clone();
        if let Some(name) = &self.name {
            renamed.name = Some(name.clone().into());
        }
        renamed.version = self.version.or(renamed.version);
        renamed
    }
}

impl Transform for SetSchemaMetadata {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let datum = self.side.of(&mut record);
        let Some(schema) = &datum.schema else {
            return if datum.value.is_null() { Ok(Some(record)) } else { Err(Problem::NoSchema) };
        };
        if let (Value::Struct(values), true) = (&mut datum.value, self.replace_null_with_default) {
            structs::fill_defaults(schema, values);
        }
        let renamed = self.named.get(schema, |schema| Ok::<_, Problem>(Arc::new(self.renamed(schema))))?;
        datum.schema = Some(Arc::clone(&renamed));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record) && self.side.datum(record).schema.is_none()
    }
}
