//! Fields that ExtractNewRecordState drops by a header.

use std::sync::Arc;

use crate::source_record::SourceRecord;
use crate::transform::error::Problem;
use crate::transform::fields::side::Side;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Schema, Value};

/// Maximum number of remembered schemas without fields; beyond it, all are forgotten.
const NARROWED_MAX: usize = 1_000;

/// Removal of the fields that a header names (`drop.fields.header.name`).
#[derive(Debug)]
pub(super) struct DroppedFields {
    header: String,
    from_key: bool,
    keep_schema_compatible: bool,
    narrowed: std::sync::Mutex<Vec<Narrowed>>,
}

/// Schema, and the same without some of its fields.
#[derive(Debug)]
struct Narrowed {
    from: Arc<Schema>,
    dropped: Vec<usize>,
    to: Arc<Schema>,
}

impl DroppedFields {
    pub(super) fn read(settings: &mut Settings<'_, '_>) -> Option<Self> {
        let from_key = settings.boolean("drop.fields.from.key", false);
        let keep_schema_compatible = settings.boolean("drop.fields.keep.schema.compatible", true);
        let header = settings.text("drop.fields.header.name").filter(|name| !name.trim().is_empty())?;
        Some(Self { header, from_key, keep_schema_compatible, narrowed: std::sync::Mutex::default() })
    }

    pub(super) fn apply<'a>(&self, mut record: SourceRecord<'a>) -> Result<SourceRecord<'a>, Problem> {
        let header = record.headers.iter().find(|header| header.name == self.header.as_str());
        let names = match header.map(|header| &header.datum.value) {
            Some(Value::Array(names)) if !names.is_empty() => names,
            _ => return Ok(record),
        };
        let key = if self.from_key { self.dropped(&record.key.schema, names) } else { Vec::new() };
        let value = self.dropped(&record.value.schema, names);
        self.narrow(&mut record, Side::Key, key)?;
        self.narrow(&mut record, Side::Value, value)?;
        Ok(record)
    }

    /// Returns the positions of the fields that are removed.
    fn dropped(&self, schema: &Option<Arc<Schema>>, names: &[Value<'_>]) -> Vec<usize> {
        let fields = schema.as_deref().map(structs::fields).unwrap_or_default();
        let is_dropped = |field: &crate::Field| {
            names.iter().any(|name| matches!(name, Value::Str(name) if *name == field.name))
                && (field.schema.optional || !self.keep_schema_compatible)
        };
        fields.iter().enumerate().filter(|(_, field)| is_dropped(field)).map(|(index, _)| index).collect()
    }

    fn narrow(&self, record: &mut SourceRecord<'_>, side: Side, dropped: Vec<usize>) -> Result<(), Problem> {
        if dropped.is_empty() {
            return Ok(());
        }
        let Some(mut taken) = side.take_unless_null(record)? else { return Ok(()) };
        structs::fill_defaults(&taken.schema, &mut taken.values);
        let mut index = 0..;
        taken.values.retain(|_| index.next().is_none_or(|index| !dropped.contains(&index)));
        let datum = side.of(record);
        datum.value = Value::Struct(taken.values);
        datum.schema = Some(self.narrowed(taken.schema, dropped)?);
        Ok(())
    }

    fn narrowed(&self, from: Arc<Schema>, dropped: Vec<usize>) -> Result<Arc<Schema>, Problem> {
        let mut narrowed = self.narrowed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let is_this = |known: &&Narrowed| Arc::ptr_eq(&known.from, &from) && known.dropped == dropped;
        if let Some(known) = narrowed.iter().find(is_this) {
            return Ok(Arc::clone(&known.to));
        }
        if narrowed.len() >= NARROWED_MAX {
            narrowed.clear();
        }
        let fields = structs::fields(&from).iter().enumerate();
        let kept = fields.filter(|(index, _)| !dropped.contains(index)).map(|(_, field)| field.clone());
        let to = Arc::new(structs::struct_with(&from, kept.collect())?);
        narrowed.push(Narrowed { from, dropped, to: Arc::clone(&to) });
        Ok(to)
    }
}
