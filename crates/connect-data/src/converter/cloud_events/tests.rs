//! CloudEvents in Avro, as they were recorded: in a case with a registry their bytes depend on its ids.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::super::registered::{SchemaId, SchemaIds};
use super::super::{ConvertError, Converters, Destination};
use crate::source_record::Datum;
use crate::{Field, Kind, Schema, Value};
use std::sync::Arc;

const RECORDED: &str = include_str!("../../../../../tests/cases/cloud_events.json");

#[derive(Deserialize)]
struct Recorded {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    serializer: String,
    registry: String,
    db: String,
    table: String,
    ts_ns: i64,
    transaction: i64,
    lsn: i64,
    /// In hexadecimal digits.
    value: String,
    /// The schema of each subject.
    subjects: BTreeMap<String, String>,
}

#[test]
fn events_and_data_in_avro_are_those_of_debezium() {
    let recorded: Recorded = serde_json::from_str(RECORDED).unwrap();
    assert_eq!(recorded.cases.len(), 2);
    for case in recorded.cases {
        let (value, subjects) = written(&case);
        assert_eq!(subjects, case.subjects, "{}", case.serializer);
        assert_eq!(value, case.value, "{}", case.serializer);
    }
}

/// Returns the value and the registered schemas by subject. The id of a schema is the one in the recorded value.
fn written(case: &Case) -> (String, BTreeMap<String, String>) {
    let converters = Converters::parse(&|key| option(case, key)).unwrap();
    let topic = format!("srv.public.{}", case.table);
    let (mut scratch, mut schemas, mut subjects) = (Vec::new(), SchemaIds::default(), BTreeMap::new());
    loop {
        let mut into = Destination { scratch: &mut scratch, topic: &topic, schemas: &mut schemas };
        match converters.value.convert_beside(&event(case), &[], &mut into) {
            Ok(encoded) => {
                let bytes = encoded.resolve(&scratch).unwrap();
                return (bytes.iter().map(|byte| format!("{byte:02x}")).collect(), subjects);
            }
            Err(ConvertError::Unregistered(registration)) => {
                subjects.insert(registration.subject.clone(), registration.text.clone());
                let id = checksum(registration.text.as_bytes()) & 0x7fff_ffff;
                schemas.learn(*registration, SchemaId(id));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn option(case: &Case, key: &str) -> Option<String> {
    Some(match key.strip_prefix("value.converter")? {
        "" => "io.debezium.converters.CloudEventsConverter".to_owned(),
        ".serializer.type" => case.serializer.clone(),
        ".data.serializer.type" => "avro".to_owned(),
        ".avro.apicurio.registry.url" => case.registry.clone(),
        ".avro.apicurio.registry.as-confluent" => "true".to_owned(),
        ".avro.apicurio.registry.use-id" => "contentId".to_owned(),
        ".avro.apicurio.registry.headers.enabled" => "false".to_owned(),
        _ => return None,
    })
}

/// Returns the id that the registry of the recording gives a schema: its CRC-32.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// Returns the event of an inserted row.
fn event(case: &Case) -> Datum<'static> {
    let required = |kind: Kind| Arc::new(Schema::new(kind));
    let optional = |kind: Kind| Arc::new(Schema::new(kind).optional(true));
    let text = |text: &str| Value::Str(text.to_owned().into());
    let row = Schema {
        name: Some(format!("srv.public.{}.Value", case.table).into()),
        ..Schema::new(Kind::Struct(vec![Field::new("id", required(Kind::Int32))])).optional(true)
    };
    let snapshot = Schema { default: Some(Value::str("false")), ..Schema::new(Kind::String).optional(true) };
    let sequence = format!("[null,\"{}\"]", case.lsn);
    let (ms, us) = (case.ts_ns / 1_000_000, case.ts_ns / 1_000);
    let source = [
        ("version", required(Kind::String), text("3.7.0.Final")),
        ("connector", required(Kind::String), text("postgresql")),
        ("name", required(Kind::String), text("srv")),
        ("ts_ms", required(Kind::Int64), Value::Int64(ms)),
        ("snapshot", Arc::new(snapshot), Value::Null),
        ("db", required(Kind::String), text(&case.db)),
        ("sequence", optional(Kind::String), text(&sequence)),
        ("ts_us", optional(Kind::Int64), Value::Int64(us)),
        ("ts_ns", optional(Kind::Int64), Value::Int64(case.ts_ns)),
        ("schema", required(Kind::String), text("public")),
        ("table", required(Kind::String), text(&case.table)),
        ("txId", optional(Kind::Int64), Value::Int64(case.transaction)),
        ("lsn", optional(Kind::Int64), Value::Int64(case.lsn)),
        ("xmin", optional(Kind::Int64), Value::Null),
        ("origin", optional(Kind::String), Value::Null),
        ("origin_lsn", optional(Kind::Int64), Value::Null),
    ];
    let (fields, values): (Vec<_>, Vec<_>) =
        source.into_iter().map(|(name, schema, value)| (Field::new(name, schema), value)).unzip();
    let row = Arc::new(row);
    let envelope = vec![
        Field::new("before", Arc::clone(&row)),
        Field::new("after", row),
        Field::new("source", required(Kind::Struct(fields))),
        Field::new("op", required(Kind::String)),
    ];
    let values = vec![Value::Null, Value::Struct(vec![Value::Int32(1)]), Value::Struct(values), text("c")];
    let name = format!("srv.public.{}.Envelope", case.table);
    let schema = Schema { name: Some(name.into()), ..Schema::new(Kind::Struct(envelope)) };
    Datum::new(Arc::new(schema), Value::Struct(values))
}
