//! The converters alone: a value with its schema to bytes.

use std::hint::black_box;
use std::sync::Arc;

use connect_data::converter::registered::{SchemaId, SchemaIds};
use connect_data::converter::{ConvertError, Converter, Converters, Destination};
use connect_data::{Field, Kind, Schema, Value};
use criterion::Criterion;

use crate::input;
use crate::measured::step;

const TOPIC: &str = "outbox.event.order";
const JSON: (&str, &str) = ("value.converter", "org.apache.kafka.connect.json.JsonConverter");

/// Name and options.
const CASES: [(&str, &[(&str, &str)]); 4] = [
    ("string", &[("value.converter", "org.apache.kafka.connect.storage.StringConverter")]),
    ("json", &[JSON, ("value.converter.schemas.enable", "false")]),
    ("json with schemas", &[JSON]),
    (
        "avro",
        &[
            ("value.converter", "io.confluent.connect.avro.AvroConverter"),
            ("value.converter.schema.registry.url", "http://127.0.0.1:1"),
        ],
    ),
];

pub(crate) fn benches(criterion: &mut Criterion) {
    let [.., payload] = input::rows().remove(0);
    let text = (Schema::named(Kind::String, "io.debezium.data.Json"), Value::str(&payload));
    let structure = envelope(&payload);
    for (form, (schema, value)) in [("text", &text), ("struct", &structure)] {
        for (name, options) in CASES {
            let converter = converter(options);
            let (mut scratch, mut schemas) = (Vec::new(), SchemaIds::default());
            learn(&converter, schema, value, &mut schemas);
            step(criterion, &format!("convert/{form} {name}"), 1, || {
                scratch.clear();
                let mut into = Destination { scratch: &mut scratch, topic: TOPIC, schemas: &mut schemas };
                black_box(converter.convert(Some(black_box(schema)), black_box(value), &mut into).unwrap());
            });
        }
    }
}

fn converter(options: &[(&str, &str)]) -> Converter {
    let lookup =
        |key: &str| options.iter().find(|(option, _)| *option == key).map(|(_, value)| (*value).to_owned());
    Converters::parse(&lookup).unwrap().value
}

/// Returns the payload with a few further columns.
fn envelope(payload: &str) -> (Schema, Value<'_>) {
    let fields = [
        ("payload", Kind::String, Value::str(payload)),
        ("eventType", Kind::String, Value::str("OrderCreated")),
        ("priority", Kind::Int32, Value::Int32(7)),
        ("placed", Kind::Int64, Value::Int64(1_767_323_045_678_901)),
        ("paid", Kind::Boolean, Value::Bool(true)),
    ];
    let (schemas, values) = fields
        .into_iter()
        .map(|(name, kind, value)| (Field::new(name, Arc::new(Schema::new(kind))), value))
        .unzip();
    (Schema::named(Kind::Struct(schemas), "srv.public.outbox.order.Value"), Value::Struct(values))
}

/// Gives the schema an id, as the registry would.
fn learn(converter: &Converter, schema: &Schema, value: &Value<'_>, schemas: &mut SchemaIds) {
    let mut scratch = Vec::new();
    let mut into = Destination { scratch: &mut scratch, topic: TOPIC, schemas };
    if let Err(ConvertError::Unregistered(registration)) = converter.convert(Some(schema), value, &mut into) {
        schemas.learn(*registration, SchemaId(1));
    }
}
