//! Transform `HoistField`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Refused, Schema, Value};

/// Transform `HoistField`, which wraps the whole in a struct with one field.
#[derive(Debug)]
pub(in crate::transform) struct HoistField {
    side: Side,
    field: String,
    hoisted: PerSchema<Arc<Schema>>,
}

impl HoistField {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        Ok(Self { side, field: settings.required("field")?, hoisted: PerSchema::default() })
    }
}

impl Transform for HoistField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let datum = self.side.of(&mut record);
        let value = std::mem::replace(&mut datum.value, Value::Null);
        *datum = match datum.schema.take() {
            Some(schema) => {
                let hoisted = self.hoisted.get(&schema, |_| {
                    let field = Field::new(self.field.clone(), Arc::clone(&schema));
                    Ok::<_, Problem>(Arc::new(Schema::new(Kind::Struct(vec![field]))))
                })?;
                Datum::new(Arc::clone(&hoisted), Value::Struct(vec![value]))
            }
            None => Datum { schema: None, value: Value::Map(vec![(Value::str(&self.field), value)]) },
        };
        Ok(Some(record))
    }
}
