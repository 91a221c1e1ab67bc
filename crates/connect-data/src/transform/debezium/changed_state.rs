//! Transform `ExtractChangedRecordState`.

use std::borrow::Cow;
use std::sync::Arc;

use super::unwrap::is_change_event;
use crate::source_record::{Datum, DatumHeader, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Field, Kind, Schema, Value};

/// Transform `ExtractChangedRecordState`, which adds headers with the names of the fields that an update changed, and of
/// those that it did not.
#[derive(Debug)]
pub(in crate::transform) struct ExtractChangedRecordState {
    changed: Option<NamesHeader>,
    unchanged: Option<NamesHeader>,
}

/// Header with names of fields.
#[derive(Debug)]
struct NamesHeader {
    name: String,
    schema: Arc<Schema>,
}

impl ExtractChangedRecordState {
    pub(in crate::transform) fn read(settings: &Settings<'_, '_>) -> Self {
        let header = |option: &str| {
            let name = settings.text(option).filter(|name| !name.trim().is_empty())?;
            let names = Kind::Array(Arc::new(Schema::new(Kind::String).optional(true)));
            let mut schema = Schema::new(names).optional(true);
            schema.name = Some(Cow::Owned(name.clone()));
            Some(NamesHeader { name, schema: Arc::new(schema) })
        };
        Self { changed: header("header.changed.name"), unchanged: header("header.unchanged.name") }
    }

    fn headers<'s>(&'s self, event: &Datum<'_>) -> impl Iterator<Item = DatumHeader<'s>> {
        let headers = [(&self.changed, true), (&self.unchanged, false)].into_iter();
        headers.filter_map(move |(header, wanted)| {
            let header = header.as_ref()?;
            let datum = Datum::new(Arc::clone(&header.schema), Value::Array(names(event, wanted)));
            Some(DatumHeader { name: Cow::Borrowed(&header.name), datum })
        })
    }
}

impl Transform for ExtractChangedRecordState {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        let headers: Vec<_> = self.headers(&record.value).collect();
        record.headers.extend(headers);
        Ok(Some(record))
    }

    fn adds_headers_in_place(&self) -> bool {
        true
    }

    fn added_in_place(&self, record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        if !is_change_event(&record.value) {
            return Vec::new();
        }
        self.headers(&record.value).map(DatumHeader::into_owned).collect()
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

/// Returns the names of the fields that differ, or of those that do not; none unless the event has both rows.
fn names(event: &Datum<'_>, differ: bool) -> Vec<Value<'static>> {
    let Some((fields, before, after)) = rows(event) else { return Vec::new() };
    let pairs = fields.iter().zip(before.iter().zip(after));
    let wanted = pairs.filter(|(_, (before, after))| before.equals(after) != differ);
    wanted.map(|(field, _)| Value::Str(field.name.clone().into())).collect()
}

type Rows<'d, 'a> = (&'d [Field], &'d [Value<'a>], &'d [Value<'a>]);

fn rows<'d, 'a>(event: &'d Datum<'a>) -> Option<Rows<'d, 'a>> {
    let (schema, Value::Struct(values)) = (event.schema.as_deref()?, &event.value) else { return None };
    let row = |name| match values.get(structs::position(schema, name)?)? {
        Value::Struct(row) => Some(row.as_slice()),
        _ => None,
    };
    let position = structs::position(schema, "after")?;
    let fields = structs::fields(&structs::fields(schema).get(position)?.schema);
    Some((fields, row("before")?, row("after")?))
}
