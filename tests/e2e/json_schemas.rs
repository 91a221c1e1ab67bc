//! Keys and values in JSON with a JSON Schema, which a real registry keeps.

use serde_json::{Value, json};

use crate::changes;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

const JSON_SCHEMA: &str = "io.confluent.connect.json.JsonSchemaConverter";

/// Returns the same configuration with JSON Schema for keys and values.
fn with_json_schemas(config: Config, settings: &[(&str, &str)]) -> Config {
    let url = registry().url();
    let mut config = config;
    config.retain(|key, _| !key.ends_with("schemas.enable"));
    let converters = [
        ("key.converter", JSON_SCHEMA),
        ("key.converter.schema.registry.url", url.as_str()),
        ("value.converter", JSON_SCHEMA),
        ("value.converter.schema.registry.url", url.as_str()),
    ];
    with(with(config, &converters), settings)
}

/// Returns the schema and the value, both as JSON.
#[track_caller]
fn read(bytes: Option<&[u8]>) -> (Value, Value) {
    let (schema, kind, body) = registry().split(bytes.unwrap());
    assert_eq!(kind, "JSON");
    (serde_json::from_str(&schema).unwrap(), serde_json::from_slice(body).unwrap())
}

#[test]
fn events_of_an_outbox_are_read_with_the_registrys_schemas() {
    let db = Outbox::create(postgres15());
    let placement = ("transforms.outbox.table.fields.additional.placement", "type:envelope:eventType");
    // Apicurio takes `{"type":"string"}` for Avro.
    let keys = ("key.converter", "org.apache.kafka.connect.storage.StringConverter");
    let mut config = with_json_schemas(db.config(kafka()), &[placement, keys]);
    config.remove("key.converter.schema.registry.url");
    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", r#"{"a": 1}"#)]);
    let records = kafka().read(&db.topic("order"), 1);
    let (schema, value) = read(records[0].value.as_deref());
    let payload = json!({"type": "string", "title": "io.debezium.data.Json", "connect.version": 1});
    let expected = json!({
        "type": "object",
        "title": format!("{}.public.outbox.order.Value", db.name()),
        "properties": {
            "payload": {"connect.index": 0, "oneOf": [{"type": "null"}, payload]},
            "eventType": {"type": "string", "connect.index": 1},
        },
    });
    assert_eq!(schema, expected);
    assert_eq!(value, json!({"payload": "{\"a\": 1}", "eventType": "OrderCreated"}));
    let subjects = registry().subjects();
    assert!(subjects.contains(&format!("{}-value", db.topic("order"))), "{subjects:?}");
}

#[test]
fn changes_of_a_table_are_read_with_the_registrys_schemas() {
    let db = Outbox::create_bare(postgres18(), "create table parts (id int primary key, price numeric(6,2))");
    let settings = [("value.converter.decimal.format", "NUMERIC")];
    let relay = Relay::start(&with_json_schemas(changes::config(&db, &[]), &settings));
    db.wait_until_streaming();
    db.execute("insert into parts values (1, 2.50)");
    db.execute("delete from parts");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&changes::topic(&db, "parts"));
    let read_values: Vec<_> =
        records.iter().map(|record| record.value.as_deref().map(|value| read(Some(value)))).collect();
    let [Some((schema, created)), Some((same, deleted)), None] = read_values.as_slice() else {
        panic!("{read_values:?}")
    };
    assert_eq!((schema, created["after"].to_string().as_str()), (same, r#"{"id":1,"price":2.50}"#));
    assert_eq!((&deleted["before"]["id"], &deleted["after"]), (&json!(1), &json!(null)));
    let price = &schema["properties"]["after"]["oneOf"][1]["properties"]["price"]["oneOf"][1];
    assert_eq!(price["type"], "number");
    let parameters = json!({"scale": "2", "connect.decimal.precision": "6"});
    assert_eq!(price["connect.parameters"], parameters);
    let key = json!({
        "type": "object",
        "title": format!("{}.Key", changes::topic(&db, "parts")),
        "properties": {"id": {"type": "integer", "connect.type": "int32", "connect.index": 0}},
    });
    assert_eq!(read(records[0].key.as_deref()), (key, json!({"id": 1})));
}

#[test]
fn the_latest_version_is_used_when_it_is_of_the_rows_form() {
    let db = Outbox::create(postgres15());
    let subject = |topic: &str| format!("{}-value", db.topic(topic));
    let register = |topic: &str, schema: &str| registry().register_as("JSON", &subject(topic), schema);
    let schema =
        |types: &Value| json!({"$schema": "http://json-schema.org/draft-07/schema#", "oneOf": types});
    let id = register(
        "order",
        &schema(&json!([{"type": "null"}, {"type": "string", "title": "ours"}])).to_string(),
    );
    register("other", &schema(&json!([{"type": "null"}, {"type": "number"}])).to_string());
    let settings = [
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("value.converter.auto.register.schemas", "false"),
        ("value.converter.use.latest.version", "true"),
    ];
    let mut config = with_json_schemas(db.config(kafka()), &settings);
    config.remove("key.converter.schema.registry.url");
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "1", "Order", "{}")]);
    let records = kafka().read(&db.topic("order"), 1);
    assert_eq!(records[0].value.as_deref().unwrap()[1..5], id.to_be_bytes());
    db.insert(&[Event::new("other", "1", "Other", "{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    assert!(relay.stderr().contains("does not match the rows"), "{}", relay.stderr());
}
