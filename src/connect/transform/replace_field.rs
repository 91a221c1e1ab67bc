use std::sync::Arc;

use super::error::Problem;
use super::schemas::PerSchema;
use super::settings::Settings;
use super::side::Side;
use super::{Transform, structs};
use crate::connect::source_record::{Datum, SourceRecord};
use crate::connect::{Field, Refused, Schema, Value};

/// `ReplaceField`: leaves fields out and renames them.
#[derive(Debug)]
pub(super) struct ReplaceField {
    side: Side,
    exclude: Vec<String>,
    include: Vec<String>,
    renames: Vec<(String, String)>,
    replace_null_with_default: bool,
    plans: PerSchema<Plan>,
}

/// The new schema, and which fields stay.
#[derive(Debug)]
struct Plan {
    schema: Arc<Schema>,
    stays: Vec<bool>,
}

impl ReplaceField {
    pub(super) fn read(side: Side, settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
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
        let fields = structs::fields(schema);
        let stays: Vec<bool> = fields.iter().map(|field| self.stays(&field.name)).collect();
        let kept = fields.iter().zip(&stays).filter(|(_, stays)| **stays);
        let renamed = kept.map(|(field, _)| Field::new(self.renamed(&field.name), Arc::clone(&field.schema)));
        Ok(Plan { schema: Arc::new(structs::struct_with(schema, renamed.collect())?), stays })
    }

    fn stays(&self, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|known| known == name);
        !is_in(&self.exclude) && (self.include.is_empty() || is_in(&self.include))
    }

    fn renamed<'n>(&'n self, name: &'n str) -> &'n str {
        self.renames.iter().find(|(old, _)| old == name).map_or(name, |(_, new)| new)
    }
}

impl Transform for ReplaceField {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some(mut taken) = self.side.take_unless_null(&mut record)? else { return Ok(Some(record)) };
        let plan = self.plans.get(&taken.schema, |schema| self.plan(schema))?;
        if self.replace_null_with_default {
            structs::fill_defaults(&taken.schema, &mut taken.values);
        }
        let mut stays = plan.stays.iter();
        taken.values.retain(|_| stays.next().is_some_and(|stays| *stays));
        *self.side.of(&mut record) = Datum::new(Arc::clone(&plan.schema), Value::Struct(taken.values));
        Ok(Some(record))
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        self.side.is_null(record)
    }
}
