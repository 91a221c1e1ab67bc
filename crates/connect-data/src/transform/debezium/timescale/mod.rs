//! Transform `TimescaleDb`, which assigns the events of chunks to their hypertable or continuous aggregate.

mod hypertables;

use std::borrow::Cow;
use std::sync::Arc;

pub use hypertables::{Catalog, Hypertables, TableName};

use super::unwrap::is_change_event;
use crate::source_record::{Datum, DatumHeader, SourceRecord};
use crate::transform::Transform;
use crate::transform::error::Problem;
use crate::transform::fields::structs;
use crate::transform::settings::Settings;
use crate::{Kind, Refused, Schema, Value};
use hypertables::Owner;

const SCHEMAS: &str = "_timescaledb_internal";
const PREFIX: &str = "timescaledb";

/// Options for the location of the catalog, and their defaults. The catalog is read over the connector's own connection.
const PLACE: [(&str, &str); 3] =
    [("database.hostname", ""), ("database.port", "5432"), ("database.dbname", "")];

/// Options of Debezium's connection to the catalog. They are ignored, as there is no such connection.
const CONNECTION: [&str; 10] = [
    "database.user",
    "database.password",
    "database.initial.statements",
    "database.query.timeout.ms",
    "database.sslmode",
    "database.sslcert",
    "database.sslkey",
    "database.sslpassword",
    "database.sslrootcert",
    "database.tcpKeepAlive",
];

/// Transform that assigns the events of chunks to their hypertable or continuous aggregate.
#[derive(Debug)]
pub(in crate::transform) struct TimescaleDb {
    /// `target.topic.prefix` (timescaledb), with a dot behind it.
    prefix: String,
    hypertables: Hypertables,
    text: Arc<Schema>,
}

impl TimescaleDb {
    pub(in crate::transform) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let mut schemas = settings.list("schema.list");
        if schemas.is_empty() {
            schemas.push(SCHEMAS.to_owned());
        }
        let prefix = settings.text("target.topic.prefix").unwrap_or_else(|| PREFIX.to_owned());
        for option in CONNECTION {
            settings.raw(option);
        }
        let mut refused = None;
        for (option, default) in PLACE {
            let own = settings.of_connector(option).unwrap_or_else(|| default.to_owned());
            if settings.text(option).is_some_and(|given| given.trim() != own.trim()) {
                let reason = format!(
                    "the catalog of TimescaleDB is read where the tables are, over the connector's own connection: \
                     leave it out, or write {own:?}"
                );
                refused = Some(settings.refuse(option, reason));
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None => Ok(Self {
                prefix: format!("{prefix}."),
                hypertables: Hypertables::new(schemas),
                text: Arc::new(Schema::new(Kind::String)),
            }),
        }
    }

    /// Returns the chunk of a change event, and its owner.
    fn owner(&self, record: &SourceRecord<'_>) -> Option<(TableName, Owner)> {
        if !is_change_event(&record.value) {
            return None;
        }
        let place = Place::find(record.value.schema.as_deref()?)?;
        let chunk = place.read(&record.value.value)?;
        let owner = self.hypertables.owner(&chunk)?;
        Some((chunk, owner))
    }

    fn headers(&self, chunk: &TableName, owner: &Owner) -> Vec<DatumHeader<'static>> {
        let of = |what: &str, table: &TableName| {
            [("table", &table.name), ("schema", &table.schema)].map(|(part, text)| DatumHeader {
                name: Cow::Owned(format!("__debezium_timescaledb_{what}_{part}")),
                datum: Datum::new(Arc::clone(&self.text), Value::Str(Cow::Owned(text.clone()))),
            })
        };
        let mut headers = of("chunk", chunk).to_vec();
        if owner.aggregate.is_some() {
            headers.extend(of("hypertable", &owner.hypertable));
        }
        headers
    }
}

impl Transform for TimescaleDb {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        let Some((chunk, owner)) = self.owner(&record) else { return Ok(Some(record)) };
        let table = owner.aggregate.as_ref().unwrap_or(&owner.hypertable);
        if let Some(place) = record.value.schema.as_deref().and_then(Place::find) {
            place.write(&mut record.value.value, table);
        }
        record.topic = Cow::Owned(format!("{}{}.{}", self.prefix, table.schema, table.name));
        record.headers.extend(self.headers(&chunk, &owner));
        Ok(Some(record))
    }

    fn adds_headers_in_place(&self) -> bool {
        true
    }

    fn added_in_place(&self, record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        self.owner(record).map_or_else(Vec::new, |(chunk, owner)| self.headers(&chunk, &owner))
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }

    fn hypertables(&self) -> Option<&Hypertables> {
        Some(&self.hypertables)
    }
}

/// Positions of the fields in an event's `source` that name its table.
#[derive(Clone, Copy)]
struct Place {
    source: usize,
    schema: usize,
    table: usize,
}

impl Place {
    fn find(event: &Schema) -> Option<Self> {
        let source = structs::position(event, "source")?;
        let fields = &structs::fields(event).get(source)?.schema;
        let (schema, table) = (structs::position(fields, "schema")?, structs::position(fields, "table")?);
        Some(Self { source, schema, table })
    }

    fn read(self, event: &Value<'_>) -> Option<TableName> {
        let Value::Struct(event) = event else { return None };
        let Value::Struct(source) = event.get(self.source)? else { return None };
        let text = |position: usize| match source.get(position)? {
            Value::Str(text) => Some(text.clone().into_owned()),
            _ => None,
        };
        Some(TableName { schema: text(self.schema)?, name: text(self.table)? })
    }

    fn write(self, event: &mut Value<'_>, table: &TableName) {
        let Value::Struct(event) = event else { return };
        let Some(Value::Struct(source)) = event.get_mut(self.source) else { return };
        for (position, text) in [(self.schema, &table.schema), (self.table, &table.name)] {
            if let Some(value) = source.get_mut(position) {
                *value = Value::Str(Cow::Owned(text.clone()));
            }
        }
    }
}
