//! `CloudEventsConverter`: a change as a CloudEvent, in JSON or Avro, with JSON or Avro in it.
//! <https://debezium.io/documentation/reference/stable/integrations/cloudevents.html>

mod attributes;
mod metadata;
mod options;
mod record;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::json::{JsonConverter, write_before_payload};
use super::json_text::{NonBmp, write_string};
use super::registered::RegisteredConverter;
use super::{ConvertError, Destination, Encoded, UnsupportedSchema};
use crate::connect::source_record::DatumHeader;
use crate::connect::{Field, Kind, NameAdjustment, Schema, Value};
use attributes::Attributes;
use metadata::{Event, Metadata};
pub(super) use options::read;
use record::Record;

/// How the name of an envelope's schema ends. Nothing else becomes an event, unless headers hold the metadata.
const ENVELOPE: &str = ".Envelope";

/// What of an envelope is the event's data.
const DATA: [&str; 2] = ["before", "after"];

/// `CloudEventsConverter`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvents {
    /// `json.*`: how the data is written.
    pub json: JsonConverter,
    /// `data.serializer.type=avro`: what writes the data, and the event too if it is Avro.
    pub(in crate::connect) avro: Option<Box<Avro>>,
    /// `extension.attributes.enable` (true): the operation, the source's fields and the transaction's are attributes.
    pub extensions: bool,
    pub(in crate::connect) metadata: Metadata,
}

/// What writes Avro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::connect) struct Avro {
    /// `avro.*`
    pub(super) converter: RegisteredConverter,
    /// The addresses of the registry, as they were given.
    registry: String,
    /// `serializer.type=avro`: the event is Avro too.
    events: bool,
    /// `schema.cloudevents.name`
    name: Option<String>,
    /// `schema.name.adjustment.mode` (avro)
    names: NameAdjustment,
}

/// What an event tells, with the schema of it.
struct Data<'r, 'v> {
    name: String,
    fields: Vec<(&'r Field, &'r Value<'v>)>,
}

impl CloudEvents {
    /// What writes Avro, if anything does.
    pub(super) fn registered(&self) -> Option<&RegisteredConverter> {
        self.avro.as_ref().map(|avro| &avro.converter)
    }

    /// Whether it reads headers, which must be JSON with schemas then.
    pub(super) fn reads_headers(&self) -> bool {
        self.metadata.reads_headers()
    }

    /// Whether what is written depends on the schema's name and version.
    pub(super) const fn writes_schemas(&self) -> bool {
        self.json.schemas || self.avro.is_some()
    }

    /// Converts a value that is an event. All else is Kafka's null.
    pub(super) fn convert<'a>(
        &self,
        schema: Option<&Schema>,
        value: &Value<'_>,
        headers: &[DatumHeader<'_>],
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        let is_envelope = || schema.and_then(Schema::name).is_some_and(|name| name.ends_with(ENVELOPE));
        let is_event = if self.metadata.from_headers { Metadata::are_in(headers) } else { is_envelope() };
        let Some(schema) = schema.filter(|_| is_event && !value.is_null()) else {
            return Ok(Encoded::Null);
        };
        let Some(record) = Record::of(schema, value) else {
            let schema = schema.kind.to_string();
            return Err(UnsupportedSchema { converter: "CloudEventsConverter", schema }.into());
        };
        let event = Event { record, headers, metadata: self.metadata };
        let start = into.scratch.len();
        let written = self.write(event, into);
        written.inspect_err(|_| into.scratch.truncate(start))
    }

    fn write<'a>(
        &self,
        event: Event<'_, '_>,
        into: &mut Destination<'_>,
    ) -> Result<Encoded<'a>, ConvertError> {
        let start = into.scratch.len();
        let source = event.source()?;
        let data = self.data(event, source)?;
        let Some(avro) = &self.avro else {
            self.attributes(event, source, None)?.write_json(into.scratch);
            label(into.scratch);
            self.write_data(into.scratch, &data)?;
            into.scratch.push(b'}');
            return Ok(Encoded::Scratch(start..into.scratch.len()));
        };
        let data = avro.data(data, into)?;
        let attributes = self.attributes(event, source, Some(avro.address(&data)))?;
        if avro.events {
            let (schema, value) = attributes.into_struct(avro.event_name(source)?, data);
            return avro.converter.convert(Some(&schema), &value, into);
        }
        attributes.write_json(into.scratch);
        label(into.scratch);
        self.json.write(into.scratch, Some(&Schema::new(Kind::Bytes)), &Value::Bytes(data.into()))?;
        into.scratch.push(b'}');
        Ok(Encoded::Scratch(start..into.scratch.len()))
    }

    /// `data_schema` is the address of the data's schema.
    fn attributes<'v>(
        &self,
        event: Event<'_, 'v>,
        source: Record<'_, 'v>,
        data_schema: Option<String>,
    ) -> Result<Attributes<'v>, ConvertError> {
        let (connector, name) = (source.text("connector")?, source.text("name")?);
        let id = event.header_or(self.metadata.id, "id", || {
            let (lsn, xid, sequence) = (source.text("lsn")?, source.text("txId")?, source.text("sequence")?);
            Ok(format!("name:{name};lsn:{lsn};txId:{xid};sequence:{sequence}"))
        })?;
        let kind = event.header_or(self.metadata.kind, "type", || {
            Ok(format!("io.debezium.connector.{connector}.DataChangeEvent"))
        })?;
        let mut attributes = Attributes::default();
        attributes.text("id", id);
        attributes.text("source", format!("/debezium/{connector}/{name}"));
        attributes.text("specversion", "1.0".to_owned());
        attributes.text("type", kind);
        attributes.text("time", source.time()?);
        let content = if data_schema.is_some() { "application/avro" } else { "application/json" };
        attributes.text("datacontenttype", content.to_owned());
        if let Some(address) = data_schema {
            attributes.text("dataschema", address);
        }
        if self.metadata.traced {
            attributes.text("traceparent", event.header_text("traceparent")?);
        }
        if self.extensions {
            attributes.extensions(event, source)?;
        }
        Ok(attributes)
    }

    fn data<'r, 'v>(
        &self,
        event: Event<'r, 'v>,
        source: Record<'_, 'v>,
    ) -> Result<Data<'r, 'v>, ConvertError> {
        let name = event.header_or(self.metadata.data_name, "dataSchemaName", || {
            Ok(format!("io.debezium.connector.{}.Data", source.text("connector")?))
        })?;
        let fields: Result<Vec<_>, ConvertError> = match self.metadata.from_headers {
            true => Ok(event.record.all().collect()),
            false => DATA.iter().map(|name| event.record.field(name)).collect(),
        };
        Ok(Data { name, fields: fields? })
    }

    fn write_data(&self, out: &mut Vec<u8>, data: &Data<'_, '_>) -> Result<(), ConvertError> {
        if self.json.schemas {
            write_before_payload(out, self.json, Some(&data.schema()));
        }
        out.push(b'{');
        for (at, (field, value)) in data.fields.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            write_string(out, &field.name, NonBmp::Escaped);
            out.push(b':');
            self.json.write(out, Some(&field.schema), value)?;
        }
        out.push(b'}');
        if self.json.schemas {
            out.push(b'}');
        }
        Ok(())
    }
}

impl Data<'_, '_> {
    fn schema(&self) -> Schema {
        let fields = self.fields.iter().map(|(field, _)| (*field).clone()).collect();
        Schema { name: Some(self.name.clone().into()), ..Schema::new(Kind::Struct(fields)) }
    }
}

impl Avro {
    /// The data with the id of their schema before them. Their subject is one of their own where the event has one too.
    fn data(&self, data: Data<'_, '_>, into: &mut Destination<'_>) -> Result<Vec<u8>, ConvertError> {
        let topic = if self.events { format!("{}-data", into.topic) } else { into.topic.to_owned() };
        let start = into.scratch.len();
        let schema = Arc::new(data.schema());
        let value = Value::Struct(data.fields.iter().map(|(_, value)| value.reborrow()).collect());
        let mut data = Destination { scratch: into.scratch, topic: &topic, schemas: into.schemas };
        self.converter.convert(Some(&schema), &value, &mut data)?;
        Ok(into.scratch.split_off(start))
    }

    /// Where the schema of these data is.
    fn address(&self, data: &[u8]) -> String {
        let id = data.get(1..5).and_then(|id| id.try_into().ok()).map_or(0, i32::from_be_bytes);
        format!("{}/schemas/ids/{id}", self.registry)
    }

    fn event_name(&self, source: Record<'_, '_>) -> Result<String, ConvertError> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => format!("{}.{}.CloudEvents.Envelope", source.text("name")?, source.text("db")?),
        };
        Ok(self.names.schema_name(&name).into_owned())
    }
}

/// Begins the data behind the attributes.
fn label(out: &mut Vec<u8>) {
    out.extend(b",\"data\":");
}
