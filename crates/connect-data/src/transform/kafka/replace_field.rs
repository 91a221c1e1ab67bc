//! Transform `ReplaceField`.

use std::sync::Arc;

use crate::source_record::{Datum, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Refused, Schema, Value};

/// Transform `ReplaceField`, which removes and renames fields.
#[derive(Debug)]
pub(in crate::transform) struct ReplaceField {
    side: Side,
    exclude: Vec<String>,
    include: Vec<String>,
    renames: Vec<(String, String)>,
    replace_null_with_default: bool,
    plans: PerSchema<Plan>,
}

/// New schema, and the position of each of its fields in the old one.
#[derive(Debug)]
struct Plan {
    schema: Arc<Schema>,
    sources: Vec<usize>,
}

impl ReplaceField {
    pub(in crate::transform) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let pair = |text: &String| {
            let (old, new) = text.split_once(':')?;
            let is_pair = !old.is_empty() && !new.is_empty() && !new.contains(':');
            is_pair.then(|| (old.to_owned(), new.to_owned()))
        };
        let renames: Option<Vec<_>> = settings.list("renames").iter().map(pair).collect();
        let replace_null_with_default = settings.boolean("replace.null.with.default", true);
        let Some(renames) = renames else {
            return Err(settings.refuse("renames", "it must be a list such as old:new,other:another"));
        };
        Ok(Self {
            side,
            exclude: settings.list("exclude"),
            include: settings.list("include"),
            renames,
            replace_null_with_default,
            plans: PerSchema::default(),
        })
    }

    fn plan(&self, schema: &Schema) -> Result<Plan, Problem> {
        let kept = structs::fields(schema).iter().filter(|field| self.stays(&field.name));
        let renamed = kept.map(|field| Field::new(self.renamed(&field.name), Arc::clone(&field.schema)));
        let renamed: Vec<_> = renamed.collect();
        let sources: Result<_, _> = renamed.iter().map(|field| self.source(schema, field)).collect();
        let sources = sources?;
        Ok(Plan { schema: Arc::new(structs::struct_with(schema, renamed)?), sources })
    }

    /// Returns the position of a field's value. Like Kafka, it uses the old name even for a field that had the new name
    /// before.
    fn source(&self, schema: &Schema, field: &Field) -> Result<usize, Problem> {
        let old = self.renames.iter().rfind(|(_, new)| *new == field.name);
        let (index, found) = structs::required(schema, old.map_or(&field.name, |(old, _)| old))?;
        if found.schema.kind != field.schema.kind {
            let schema = found.schema.kind.to_string();
            return Err(Problem::UnsupportedField {
                field: found.name.clone(),
                schema,
                transform: "ReplaceField",
            });
        }
        Ok(index)
    }

    fn stays(&self, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|known| known == name);
        !is_in(&self.exclude) && (self.include.is_empty() || is_in(&self.include))
    }

    fn renamed<'n>(&'n self, name: &'n str) -> &'n str {
        self.renames.iter().rfind(|(old, _)| old == name).map_or(name, |(_, new)| new)
    }
}

impl Transform for ReplaceField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(mut taken) = self.side.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let plan = self.plans.get(&taken.schema, |schema| self.plan(schema))?;
        if self.replace_null_with_default {
            structs::fill_defaults(&taken.schema, &mut taken.values);
        }
        let sources = plan.sources.iter();
        let values = sources.map(|index| structs::take(&mut taken.values, *index)).collect();
        *self.side.of(&mut record) = Datum::new(Arc::clone(&plan.schema), Value::Struct(values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record)
    }
}
