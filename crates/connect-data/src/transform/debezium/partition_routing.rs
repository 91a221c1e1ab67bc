//! Transform `PartitionRouting`.

use super::murmur;
use super::unwrap::{is_change_event, operation};
use crate::java::hash_code;
use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Refused, Schema, Value};

/// Transform `PartitionRouting`, which chooses the partition by fields of the change event.
#[derive(Debug)]
pub(in crate::transform) struct PartitionRouting {
    /// Names from the event inwards; `change` stands for the event's row.
    paths: Vec<Vec<String>>,
    partitions: i32,
    /// `partition.hash.function` (java)
    hash: fn(&Value<'_>) -> Option<i32>,
}

impl PartitionRouting {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let fields = settings.required_list("partition.payload.fields");
        let partitions = settings.number("partition.topic.num");
        // Debezium treats any other word as java.
        let function = settings.raw("partition.hash.function").unwrap_or_default();
        let is_murmur = function.trim().eq_ignore_ascii_case("murmur");
        let partitions = match partitions? {
            Some(partitions) if partitions > 0 => partitions,
            _ => return Err(settings.refuse("partition.topic.num", "it must be a number above 0")),
        };
        let path = |field: &String| field.split('.').map(|name| name.trim().to_owned()).collect();
        let hash = if is_murmur { murmur::of } else { hash_code::of };
        Ok(Self { paths: fields?.iter().map(path).collect(), partitions, hash })
    }
}

impl Transform for PartitionRouting {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        let row = match operation(&record.value) {
            Some("t" | "m") => return Ok(Some(record)),
            Some("d") => "before",
            _ => "after",
        };
        let Some(schema) = &record.value.schema else { return Ok(Some(record)) };
        let mut sum: Option<i32> = None;
        for path in &self.paths {
            if let Some(value) = find(schema, &record.value.value, path, row) {
                let hash = (self.hash)(&value).ok_or_else(|| Problem::UnsupportedField {
                    field: path.join("."),
                    schema: "STRUCT".to_owned(),
                    transform: "PartitionRouting",
                })?;
                sum = Some(sum.unwrap_or_default().wrapping_add(hash));
            }
        }
        if let Some(sum) = sum {
            let positive = sum & i32::MAX;
            record.partition = Some(if positive == i32::MAX { 0 } else { positive % self.partitions });
        }
        Ok(Some(record))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Returns the value at a path, with its default in place of null; none when the field is missing, or null without a
/// default.
fn find<'v>(schema: &'v Schema, event: &'v Value<'_>, path: &[String], row: &str) -> Option<Value<'v>> {
    let (mut schema, mut value) = (schema, event);
    let last = path.len().saturating_sub(1);
    for (index, step) in path.iter().enumerate() {
        let name = if step == "change" && index < last { row } else { step.as_str() };
        let Value::Struct(values) = value else { return None };
        let position = structs::position(schema, name)?;
        schema = &structs::fields(schema).get(position)?.schema;
        value = values.get(position)?;
    }
    match value {
        Value::Null => schema.default.clone(),
        value => Some(value.reborrow()),
    }
}
