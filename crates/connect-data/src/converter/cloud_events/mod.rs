//! `CloudEventsConverter`: a change as a CloudEvent, in JSON or Avro, with data in JSON or Avro.
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
use crate::source_record::DatumHeader;
use crate::{Field, Kind, NameAdjustment, Schema, Value};
use attributes::Attributes;
use metadata::{Event, Metadata};
pub(super) use options::read;
use record::Record;

/// Suffix of the name of an envelope's schema. Only envelopes become events, unless headers hold the metadata.
const ENVELOPE: &str = ".Envelope";

/// Fields of an envelope that become the event's data.
const DATA: [&str; 2] = ["before", "after"];

/// `CloudEventsConverter`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudEvents {
    /// `json.*`: form of JSON data.
    pub json: JsonConverter,
    /// `data.serializer.type=avro`: writer of the data, and of the event too if it is Avro.
    pub(crate) avro: Option<Box<Avro>>,
    /// `extension.attributes.enable` (true): the operation and the fields of the source and the transaction become attributes.
    pub extensions: bool,
    pub(crate) metadata: Metadata,
}

/// Writer of Avro.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Avro {
    /// `avro.*`
    pub(super) converter: RegisteredConverter,
    /// Addresses of the registry, as configured.
    registry: String,
    /// `serializer.type=avro`: the event is Avro too.
    events: bool,
    /// `schema.cloudevents.name`
    name: Option<String>,
    /// `schema.name.adjustment.mode` (avro)
    names: NameAdjustment,
}

/// Data of an event, with the name and fields of its schema.
struct Data<'r, 'v> {
    name: String,
    fields: Vec<(&'r Field, &'r Value<'v>)>,
}

impl CloudEvents {
    /// Returns the converter that writes Avro, if one does.
    pub(super) fn registered(&self) -> Option<&RegisteredConverter> {
        self.avro.as_ref().map(|avro| &avro.converter)
    }

    /// Reports whether the converter reads headers, which must then be JSON with schemas.
    pub(super) fn reads_headers(&self) -> bool {
        self.metadata.reads_headers()
    }

    /// Reports whether the output depends on the schema's name and version.
    pub(super) const fn writes_schemas(&self) -> bool {
        self.json.schemas || self.avro.is_some()
    }

    /// Converts an event. Any other value becomes Kafka's null.
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

    /// Returns the attributes of an event. `data_schema` is the address of the data's schema.
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
    /// Returns the data, preceded by the id of its schema. If the event is Avro too, the data has a subject of its own, that of
    /// the topic with the suffix `-data`.
    fn data(&self, data: Data<'_, '_>, into: &mut Destination<'_>) -> Result<Vec<u8>, ConvertError> {
        let topic = if self.events { format!("{}-data", into.topic) } else { into.topic.to_owned() };
        let start = into.scratch.len();
        let schema = Arc::new(data.schema());
        let value = Value::Struct(data.fields.iter().map(|(_, value)| value.reborrow()).collect());
        let mut data = Destination { scratch: into.scratch, topic: &topic, schemas: into.schemas };
        self.converter.convert(Some(&schema), &value, &mut data)?;
        Ok(into.scratch.split_off(start))
    }

    /// Returns the address of the schema of these data.
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

/// Begins the member for the data, which follows the attributes.
fn label(out: &mut Vec<u8>) {
    out.extend(b",\"data\":");
}
