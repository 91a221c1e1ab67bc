//! Fields that ExtractNewRecordState adds.

use std::sync::Arc;

use super::OPERATION;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Refused, Schema, Value};

const DEFAULT_PREFIX: &str = "__";

/// Field of the change event that becomes a field of the row or a header.
#[derive(Debug)]
pub(super) struct Reference {
    parent: Option<String>,
    field: String,
    new_name: String,
}

/// Position of a [`Reference`] in the events of one schema.
#[derive(Debug)]
pub(super) struct Found {
    /// Schema of the field, optional and without a default.
    pub(super) schema: Arc<Schema>,
    parent: Option<usize>,
    field: Place,
}

#[derive(Debug)]
enum Place {
    /// Position in the parent.
    Inside(usize),
    /// Position in the event itself.
    Event(usize),
}

impl Reference {
    /// Reads `add.fields` or `add.headers` with its prefix.
    pub(super) fn read(settings: &mut Settings<'_, '_>, option: &str) -> Result<Vec<Self>, Refused> {
        let prefix_key = format!("{option}.prefix");
        let prefix = settings.raw(&prefix_key).unwrap_or_else(|| DEFAULT_PREFIX.to_owned());
        let names = settings.list(option);
        let references: Option<Vec<Self>> = names.iter().map(|name| Self::parse(&prefix, name)).collect();
        references.ok_or_else(|| settings.refuse(option, "a name may have one colon, before its new name"))
    }

    /// Parses `field` or `struct.field`, each with an optional `:new_name`.
    fn parse(prefix: &str, text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let (path, renamed) = (parts.next()?, parts.next());
        if parts.next().is_some() {
            return None;
        }
        let mut steps = path.split('.');
        let (first, second) = (steps.next()?, steps.next());
        let (parent, field) = match second {
            Some(field) => (Some(first), field),
            None => (parent_of(first), first),
        };
        let new_name = match (renamed, second) {
            (Some(renamed), _) => format!("{prefix}{renamed}"),
            (None, Some(field)) => format!("{prefix}{first}_{field}"),
            (None, None) => format!("{prefix}{field}"),
        };
        Some(Self { parent: parent.map(str::to_owned), field: field.to_owned(), new_name })
    }

    /// Returns the name of the new field or header.
    pub(super) fn new_name(&self) -> &str {
        &self.new_name
    }

    /// Reports whether it is the operation, which tombstones get as well.
    pub(super) fn is_operation(&self) -> bool {
        self.field == OPERATION
    }

    /// Returns its position in the events of a schema; none when they do not have the field. A missing parent is an error.
    pub(super) fn find(&self, event: &Schema) -> Result<Option<Found>, Problem> {
        let parent = match &self.parent {
            Some(parent) => Some(structs::required(event, parent)?),
            None => None,
        };
        let inside = parent.and_then(|(_, parent)| {
            let position = structs::position(&parent.schema, &self.field)?;
            Some((Place::Inside(position), structs::fields(&parent.schema).get(position)?))
        });
        let found = inside.or_else(|| {
            let position = structs::position(event, &self.field)?;
            Some((Place::Event(position), structs::fields(event).get(position)?))
        });
        let Some((place, field)) = found else { return Ok(None) };
        let basics = structs::with_basics_of(&field.schema, field.schema.kind.clone());
        let schema = Arc::new(basics.optional(true));
        Ok(Some(Found { schema, parent: parent.map(|(position, _)| position), field: place }))
    }
}

impl Found {
    /// Returns the value in an event.
    pub(super) fn value<'a>(&self, event: &[Value<'a>]) -> Value<'a> {
        let parent = match self.parent {
            Some(position) => match event.get(position) {
                Some(Value::Struct(values)) => Some(values.as_slice()),
                // For example `transaction`, if there is no transaction metadata.
                _ => return Value::Null,
            },
            None => None,
        };
        let value = match self.field {
            Place::Inside(position) => parent.and_then(|values| values.get(position)),
            Place::Event(position) => event.get(position),
        };
        value.cloned().unwrap_or(Value::Null)
    }
}

/// Returns the struct of an event to which a field belongs that is named without one.
fn parent_of(field: &str) -> Option<&'static str> {
    match field {
        "id" | "data_collection_order" | "total_order" => Some("transaction"),
        OPERATION | "ts_ms" | "ts_us" | "ts_ns" => None,
        _ => Some("source"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_as_debezium_reads_them() {
        let cases = [
            ("op", Some((None, "op", "__op"))),
            ("op:operation", Some((None, "op", "__operation"))),
            ("table", Some((Some("source"), "table", "__table"))),
            ("source.ts_ms", Some((Some("source"), "ts_ms", "__source_ts_ms"))),
            ("source.ts_ms:at", Some((Some("source"), "ts_ms", "__at"))),
            ("id", Some((Some("transaction"), "id", "__id"))),
            ("transaction.id", Some((Some("transaction"), "id", "__transaction_id"))),
            ("a:b:c", None),
        ];
        for (text, expected) in cases {
            let read = Reference::parse("__", text);
            let read = read.as_ref().map(|r| (r.parent.as_deref(), r.field.as_str(), r.new_name.as_str()));
            assert_eq!(read, expected, "{text}");
        }
    }
}
