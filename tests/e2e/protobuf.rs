//! Keys and values in Protobuf, with a real schema registry.

use crate::changes;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};

const PROTOBUF: &str = "io.confluent.connect.protobuf.ProtobufConverter";

fn with_protobuf(config: Config, settings: &[(&str, &str)]) -> Config {
    let url = registry().url();
    let mut config = config;
    config.retain(|key, _| !key.ends_with("schemas.enable"));
    let converters = [
        ("key.converter", PROTOBUF),
        ("key.converter.schema.registry.url", url.as_str()),
        ("value.converter", PROTOBUF),
        ("value.converter.schema.registry.url", url.as_str()),
    ];
    with(with(config, &converters), settings)
}

/// Returns the schema's text, and the bytes after the id.
#[track_caller]
fn read(bytes: Option<&[u8]>) -> (String, &[u8]) {
    let (schema, kind, body) = registry().split(bytes.unwrap());
    assert_eq!(kind, "PROTOBUF");
    (schema, body)
}

#[test]
fn flattened_rows_are_messages_of_the_registrys_schemas() {
    let db = Outbox::create_bare(
        postgres18(),
        "create table parts (id int primary key, name text, price numeric(6,2), note text)",
    );
    let settings = [
        ("transforms", "flat"),
        ("transforms.flat.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("value.converter.optional.for.nullables", "true"),
    ];
    // The schema's id is part of the key, so it decides about the partition.
    kafka().create_topic(&changes::topic(&db, "parts"), 1, &[]);
    let relay = Relay::start(&with_protobuf(changes::config(&db, &[]), &settings));
    db.wait_until_streaming();
    db.execute("insert into parts values (1, 'bolt', 2.50, null)");
    db.execute("insert into parts values (300, '', -1, 'x')");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&changes::topic(&db, "parts"));
    let package = changes::topic(&db, "parts");
    let (schema, body) = read(records[0].value.as_deref());
    let expected = format!(
        r#"syntax = "proto3";
package {package};

import "confluent/type/decimal.proto";

message Value {{
  int32 id = 1;
  optional string name = 2;
  optional confluent.type.Decimal price = 3 [(confluent.field_meta) = {{
    params: [
      {{
        value: "6",
        key: "precision"
      }},
      {{
        value: "2",
        key: "scale"
      }}
    ]
  }}];
  optional string note = 4;
}}
"#
    );
    assert_eq!(schema, expected);
    // Index, id, name, price (250, three digits, two of them behind the point).
    let first = b"\0\x08\x01\x12\x04bolt\x1a\x08\x0a\x02\x00\xfa\x10\x03\x18\x02";
    assert_eq!(body, first);
    // -1.00 is -100.
    let second = b"\0\x08\xac\x02\x12\x00\x1a\x07\x0a\x01\x9c\x10\x03\x18\x02\x22\x01x";
    assert_eq!(read(records[1].value.as_deref()), (expected, &second[..]));
    let key = format!("syntax = \"proto3\";\npackage {package};\n\nmessage Key {{\n  int32 id = 1;\n}}\n");
    assert_eq!(read(records[1].key.as_deref()), (key, &b"\0\x08\xac\x02"[..]));
}

#[test]
fn keys_of_an_outbox_are_wrapped_and_payloads_in_an_envelope() {
    let db = Outbox::create(postgres15());
    let placement = ("transforms.outbox.table.fields.additional.placement", "type:envelope:eventType");
    let _relay = Relay::start(&with_protobuf(db.config(kafka()), &[placement]));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    let records = kafka().read(&db.topic("order"), 1);
    let (schema, body) = read(records[0].key.as_deref());
    assert!(schema.contains("message StringValue"), "{schema}");
    // The eighth message of the file, as a list of one index in zigzag.
    assert_eq!(body, b"\x02\x0e\x0a\x03o-1");
    let (schema, body) = read(records[0].value.as_deref());
    let package = format!("{}.public.outbox.order", db.name());
    assert_eq!(
        schema,
        format!(
            "syntax = \"proto3\";\npackage {package};\n\nmessage Value {{\n  string payload = 1;\n  string eventType = 2;\n}}\n"
        )
    );
    assert_eq!(body, b"\0\x0a\x02{}\x12\x0cOrderCreated");
}
