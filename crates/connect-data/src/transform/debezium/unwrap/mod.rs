//! Transform `io.debezium.transforms.ExtractNewRecordState`, which replaces a change event by its row.

mod dropped;
mod layout;
mod reference;

use std::borrow::Cow;
use std::sync::Arc;

use dropped::DroppedFields;
use layout::Layout;
use reference::{Found, Reference};

use crate::source_record::{Datum, DatumHeader, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::schemas::PerSchema;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Kind, Refused, Schema, Value};

/// Suffix of the name of a change event's schema.
const ENVELOPE: &str = ".Envelope";
const OPERATION: &str = "op";
const DELETED: &str = "__deleted";

/// `delete.tombstone.handling.mode` (tombstone)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deletes {
    /// Both the delete event and the tombstone are dropped.
    Drop,
    /// The delete event becomes a null of the row's schema.
    Tombstone,
    /// The delete event becomes the old row, with `__deleted`.
    Rewrite,
    /// Like [`Self::Rewrite`], and the tombstone stays.
    RewriteWithTombstone,
    /// The delete event becomes a tombstone.
    DeleteToTombstone,
}

/// Transform that replaces a change event by its row.
#[derive(Debug)]
pub(in crate::transform) struct ExtractNewRecordState {
    deletes: Deletes,
    replace_null_with_default: bool,
    route_by_field: Option<String>,
    added_fields: Vec<Reference>,
    added_headers: Vec<Reference>,
    dropped: Option<DroppedFields>,
    layouts: PerSchema<Layout>,
    /// Position of each added header's value; none for one that the events do not have.
    header_places: PerSchema<Vec<Option<Found>>>,
    operation_schema: Arc<Schema>,
}

/// Reports whether a value is a change event.
pub fn is_change_event(value: &Datum<'_>) -> bool {
    let name = value.schema.as_deref().and_then(Schema::name);
    name.is_some_and(|name| name.ends_with(ENVELOPE)) && !value.value.is_null()
}

/// Reports whether a value is the change event of a delete.
pub(in crate::transform) fn is_delete_event(value: &Datum<'_>) -> bool {
    is_change_event(value) && operation(value) == Some("d")
}

/// Returns the operation of a change event.
pub(in crate::transform) fn operation<'d>(value: &'d Datum<'_>) -> Option<&'d str> {
    let position = structs::position(value.schema.as_deref()?, OPERATION)?;
    match &value.value {
        Value::Struct(values) => match values.get(position)? {
            Value::Str(operation) => Some(operation),
            _ => None,
        },
        _ => None,
    }
}

impl Deletes {
    const ALL: [(&'static str, Self); 5] = [
        ("drop", Self::Drop),
        ("tombstone", Self::Tombstone),
        ("rewrite", Self::Rewrite),
        ("rewrite-with-tombstone", Self::RewriteWithTombstone),
        ("delete-to-tombstone", Self::DeleteToTombstone),
    ];

    /// Reports whether rows get `__deleted`.
    const fn rewrites(self) -> bool {
        matches!(self, Self::Rewrite | Self::RewriteWithTombstone)
    }
}

impl ExtractNewRecordState {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let deletes = settings.one_of("delete.tombstone.handling.mode", &Deletes::ALL, Deletes::Tombstone);
        let added_fields = Reference::read(settings, "add.fields");
        let added_headers = Reference::read(settings, "add.headers");
        Ok(Self {
            deletes,
            replace_null_with_default: settings.boolean("replace.null.with.default", true),
            route_by_field: settings.text("route.by.field"),
            dropped: DroppedFields::read(settings),
            layouts: PerSchema::default(),
            header_places: PerSchema::default(),
            operation_schema: Arc::new(Schema::new(Kind::String)),
            added_fields: added_fields?,
            added_headers: added_headers?,
        })
    }

    /// Returns the headers that a change event gets. Its schema needs only the fields of these headers.
    fn headers<'a>(
        &'a self,
        schema: &Arc<Schema>,
        event: &[Value<'a>],
    ) -> Result<Vec<DatumHeader<'a>>, Problem> {
        if self.added_headers.is_empty() {
            return Ok(Vec::new());
        }
        let places = self.header_places.get(schema, |schema| {
            self.added_headers.iter().map(|header| header.find(schema)).collect::<Result<Vec<_>, _>>()
        })?;
        let header = |(header, found): (&'a Reference, &Option<Found>)| {
            let found = found.as_ref()?;
            let datum = Datum::new(Arc::clone(&found.schema), found.value(event));
            Some(DatumHeader { name: Cow::Borrowed(header.new_name()), datum })
        };
        Ok(self.added_headers.iter().zip(places.iter()).filter_map(header).collect())
    }

    fn tombstone<'a>(&'a self, mut record: SourceRecord<'a>) -> Option<SourceRecord<'a>> {
        if self.deletes != Deletes::RewriteWithTombstone {
            return None;
        }
        for header in self.added_headers.iter().filter(|header| header.is_operation()) {
            let datum = Datum::new(Arc::clone(&self.operation_schema), Value::str("d"));
            record.headers.push(DatumHeader { name: Cow::Borrowed(header.new_name()), datum });
        }
        Some(record)
    }

    /// Replaces the event of a create, an update or a read by the new row.
    fn row<'a>(
        &'a self,
        mut record: SourceRecord<'a>,
        layout: &Layout,
        mut event: Vec<Value<'a>>,
    ) -> Result<SourceRecord<'a>, Problem> {
        let added = layout.added_fields(&event)?;
        let Value::Struct(mut row) = structs::take(&mut event, layout.after.position) else {
            return Err(Problem::NotAStruct("row"));
        };
        self.mark(&layout.after.schema, &mut row, "false");
        self.route(&mut record, &layout.after.schema, &row)?;
        row.extend(added);
        record.value = Datum::new(layout.with_added_fields(&layout.after.marked)?, Value::Struct(row));
        match &self.dropped {
            Some(dropped) => dropped.apply(record),
            None => Ok(record),
        }
    }

    fn delete<'a>(
        &'a self,
        mut record: SourceRecord<'a>,
        layout: &Layout,
        mut event: Vec<Value<'a>>,
    ) -> Result<Option<SourceRecord<'a>>, Problem> {
        if self.deletes == Deletes::Drop {
            return Ok(None);
        }
        let added = layout.added_fields(&event);
        let before = structs::take(&mut event, layout.before.position);
        if let Value::Struct(row) = &before {
            self.route(&mut record, &layout.before.schema, row)?;
        }
        record.value = match self.deletes {
            Deletes::Drop | Deletes::DeleteToTombstone => Datum::NULL,
            Deletes::Tombstone => Datum::new(Arc::clone(&layout.after.schema), Value::Null),
            Deletes::Rewrite | Deletes::RewriteWithTombstone => {
                let Value::Struct(mut row) = before else { return Err(Problem::NotAStruct("row")) };
                self.mark(&layout.before.schema, &mut row, "true");
                Datum::new(Arc::clone(&layout.before.marked), Value::Struct(row))
            }
        };
        if let Some(dropped) = &self.dropped {
            record = dropped.apply(record)?;
        }
        let Some(schema) = record.value.schema.as_ref().filter(|_| !record.value.value.is_null()) else {
            return Ok(Some(record));
        };
        let output = layout.with_added_fields(schema)?;
        if let Value::Struct(row) = &mut record.value.value {
            row.extend(added?);
        }
        record.value.schema = Some(output);
        Ok(Some(record))
    }

    /// Adds `__deleted` to a row, in the modes that do so.
    fn mark<'a>(&self, schema: &Schema, row: &mut Vec<Value<'a>>, deleted: &'static str) {
        if !self.deletes.rewrites() {
            return;
        }
        if self.replace_null_with_default {
            structs::fill_defaults(schema, row);
        }
        row.push(Value::str(deleted));
    }

    /// Replaces the topic by the value of a field of the row.
    fn route<'a>(
        &self,
        record: &mut SourceRecord<'a>,
        schema: &Schema,
        row: &[Value<'a>],
    ) -> Result<(), Problem> {
        let Some(name) = &self.route_by_field else { return Ok(()) };
        let (position, field) = structs::required(schema, name)?;
        let topic = match row.get(position).or(field.schema.default.as_ref()) {
            Some(Value::Str(topic)) => topic.clone(),
            Some(Value::Null) | None => return Ok(()),
            Some(_) => {
                let schema = field.schema.kind.to_string();
                let transform = "ExtractNewRecordState";
                return Err(Problem::UnsupportedField { field: name.clone(), schema, transform });
            }
        };
        // Java's `trim` removes these characters.
        if !topic.chars().all(|character| character <= ' ') {
            record.topic = topic;
        }
        Ok(())
    }
}

impl Transform for ExtractNewRecordState {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        if record.value.value.is_null() {
            return Ok(self.tombstone(record));
        }
        if !is_change_event(&record.value) {
            return Ok(Some(record));
        }
        let value = std::mem::replace(&mut record.value, Datum::NULL);
        let (Some(schema), Value::Struct(event)) = (value.schema, value.value) else {
            return Err(Problem::NotAStruct("value"));
        };
        record.headers.extend(self.headers(&schema, &event)?);
        let layout = self
            .layouts
            .get(&schema, |schema| Layout::of(schema, self.deletes.rewrites(), &self.added_fields))?;
        let is_null = |position: usize| event.get(position).is_none_or(Value::is_null);
        match (is_null(layout.before.position), is_null(layout.after.position)) {
            // A truncate has neither row.
            (true, true) => Ok(None),
            (false, true) => self.delete(record, &layout, event),
            (_, false) => self.row(record, &layout, event).map(Some),
        }
    }

    fn adds_headers_in_place(&self) -> bool {
        !self.added_headers.is_empty()
    }

    fn added_in_place(&self, record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        let (Some(schema), Value::Struct(event)) = (&record.value.schema, &record.value.value) else {
            return Vec::new();
        };
        if !is_change_event(&record.value) {
            return Vec::new();
        }
        let headers = self.headers(schema, event).unwrap_or_default();
        headers.into_iter().map(DatumHeader::into_owned).collect()
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        !is_change_event(&record.value)
    }
}
