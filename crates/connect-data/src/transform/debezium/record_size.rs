//! Transform `EnforceRecordSize`.

use crate::source_record::SourceRecord;
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Kind, Refused, Schema, Value};

/// Bytes that Debezium counts for its source partition (one entry) and offset (seven), 100 each.
const SOURCE_BYTES: usize = 800;
const HEADER_BYTES: usize = 100;
const TIMESTAMP_BYTES: usize = 8;
const MIN_FIELD_DEFAULT: usize = 25_000;

/// Transform `EnforceRecordSize`, which cuts long texts and bytes of the rows if the record is too large.
#[derive(Debug)]
pub(in crate::transform) struct EnforceRecordSize {
    max_bytes: usize,
    compression_ratio: f64,
    min_field_bytes: usize,
}

impl EnforceRecordSize {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let max_bytes = match settings.number("max.bytes")? {
            Some(bytes) if bytes > 0 => bytes,
            _ => return Err(settings.refuse("max.bytes", "it must be a number above 0")),
        };
        let compression_ratio: f64 = settings.number("compression.ratio")?.unwrap_or(1.0);
        if !compression_ratio.is_finite() || compression_ratio <= 0.0 {
            return Err(settings.refuse("compression.ratio", "it must be a number above 0"));
        }
        let min_field_bytes = settings.number("min.field.size")?.unwrap_or(MIN_FIELD_DEFAULT);
        Ok(Self { max_bytes, compression_ratio, min_field_bytes })
    }

    /// Returns the number of bytes by which the record is too large.
    fn excess(&self, record: &SourceRecord<'_>) -> usize {
        let of = |datum: &crate::source_record::Datum<'_>| {
            datum.schema.as_deref().map_or(0, |schema| size(schema, &datum.value))
        };
        let headers = record.headers.len().saturating_mul(HEADER_BYTES);
        let parts =
            [SOURCE_BYTES, headers, TIMESTAMP_BYTES, of(&record.key), of(&record.value), record.topic.len()];
        let estimate = share(parts.iter().sum(), self.compression_ratio);
        estimate.saturating_sub(self.max_bytes)
    }

    /// Returns the length of a value that may be cut, in UTF-16 units or bytes.
    fn cuttable(&self, schema: &Schema, value: &Value<'_>) -> Option<usize> {
        let length = match (&schema.kind, value) {
            (Kind::String, Value::Str(text)) => text.encode_utf16().count(),
            (Kind::Bytes, Value::Bytes(bytes)) => bytes.len(),
            _ => return None,
        };
        (length > self.min_field_bytes).then_some(length)
    }

    fn cuttable_bytes(&self, schema: &Schema, row: &Value<'_>) -> usize {
        let Value::Struct(values) = row else { return 0 };
        let pairs = structs::fields(schema).iter().zip(values);
        pairs.filter_map(|(field, value)| self.cuttable(&field.schema, value)).sum()
    }

    fn cut(&self, schema: &Schema, row: &mut Value<'_>, total: usize, excess: usize) {
        let Value::Struct(values) = row else { return };
        for (field, value) in structs::fields(schema).iter().zip(values) {
            let Some(length) = self.cuttable(&field.schema, value) else { continue };
            let removed = share(excess, ratio(length, total));
            cut_to(value, length.saturating_sub(removed));
        }
    }
}

impl Transform for EnforceRecordSize {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let excess = match record.value.value {
            Value::Struct(_) => self.excess(&record),
            _ => 0,
        };
        let (Some(schema), Value::Struct(event)) = (&record.value.schema, &mut record.value.value) else {
            return Ok(Some(record));
        };
        if excess == 0 {
            return Ok(Some(record));
        }
        let rows: Vec<(usize, &Schema)> = ["before", "after"]
            .iter()
            .filter_map(|name| structs::required(schema, name).ok())
            .map(|(position, field)| (position, &*field.schema))
            .collect();
        let length = |(position, schema): &(usize, &Schema), event: &[Value<'_>]| {
            event.get(*position).map_or(0, |row| self.cuttable_bytes(schema, row))
        };
        let total: usize = rows.iter().map(|row| length(row, event)).sum();
        for row in &rows {
            let bytes = length(row, event);
            if let Some(value) = event.get_mut(row.0)
                && bytes > 0
            {
                self.cut(row.1, value, bytes, share(excess, ratio(bytes, total)));
            }
        }
        Ok(Some(record))
    }
}

/// Estimates the bytes of the Java objects (`ApproximateStructSizeCalculator`).
fn size(schema: &Schema, value: &Value<'_>) -> usize {
    match (&schema.kind, value) {
        (Kind::Struct(_) | Kind::String | Kind::Bytes | Kind::Array(_) | Kind::Map(..), Value::Null) => 0,
        (Kind::String, Value::Str(text)) => text.len().saturating_add(56),
        (Kind::Bytes, Value::Bytes(bytes)) => bytes.len().saturating_add(24),
        (Kind::Bytes, Value::Decimal(decimal)) => decimal.unscaled_bytes().len().saturating_add(24),
        (Kind::Struct(fields), Value::Struct(values)) => fields
            .iter()
            .zip(values)
            .fold(56, |sum, (field, value)| sum.saturating_add(size(&field.schema, value)).saturating_add(8)),
        (Kind::Array(item), Value::Array(items)) => {
            items.iter().fold(64, |sum, value| sum.saturating_add(size(item, value)).saturating_add(8))
        }
        (Kind::Map(keys, items), Value::Map(entries)) => entries.iter().fold(88, |sum, (key, value)| {
            sum.saturating_add(size(keys, key)).saturating_add(size(items, value)).saturating_add(16)
        }),
        _ => 24,
    }
}

/// Cuts a value to `length` UTF-16 units or bytes. A character that would be cut in two is dropped.
fn cut_to(value: &mut Value<'_>, length: usize) {
    match value {
        Value::Str(text) => {
            let mut units = 0usize;
            let kept = text.char_indices().find(|(_, character)| {
                units = units.saturating_add(character.len_utf16());
                units > length
            });
            if let Some((end, _)) = kept {
                let shorter = text.get(..end).unwrap_or_default().to_owned();
                *value = Value::Str(shorter.into());
            }
        }
        Value::Bytes(bytes) => {
            let shorter = bytes.get(..length).unwrap_or(bytes).to_vec();
            *value = Value::Bytes(shorter.into());
        }
        _ => {}
    }
}

fn ratio(part: usize, total: usize) -> f64 {
    if total == 0 { 0.0 } else { float(part) / float(total) }
}

/// Returns a share of a number, rounded up.
fn share(number: usize, ratio: f64) -> usize {
    format!("{:.0}", (float(number) * ratio).ceil()).parse().unwrap_or(usize::MAX)
}

fn float(number: usize) -> f64 {
    u32::try_from(number).map_or(f64::from(u32::MAX), f64::from)
}
