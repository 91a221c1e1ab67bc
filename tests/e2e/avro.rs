//! Keys and values in Avro, with a real schema registry behind its Confluent interface.

use std::time::Duration;

use apache_avro::types::Value as Avro;
use outboxd::internals::throwaway::unused_port;
use serde_json::{Value, json};

use crate::printed_fixes::fix_of;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::registry::{Registry, registry, url};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

const CONFLUENT: &str = "io.confluent.connect.avro.AvroConverter";
const APICURIO: &str = "io.apicurio.registry.utils.converter.AvroConverter";

const JSON: &str = r#"["null",{"type":"string","connect.version":1,"connect.name":"io.debezium.data.Json"}]"#;

/// Returns a configuration whose values are Avro of this registry, with more settings.
fn avro_values(db: &Outbox, url: &str, settings: &[(&str, &str)]) -> Config {
    let config = with(
        db.config(kafka()),
        &[("value.converter", CONFLUENT), ("value.converter.schema.registry.url", url)],
    );
    with(config, settings)
}

fn order(payload: &str) -> Event {
    Event::new("order", "o-1", "OrderCreated", payload)
}

fn text(text: &str) -> Avro {
    Avro::Union(1, Box::new(Avro::String(text.to_owned())))
}

#[test]
fn keys_and_values_are_read_with_the_registrys_schemas() {
    let db = Outbox::create(postgres18());
    let url = registry().url();
    let settings = [
        ("key.converter", CONFLUENT),
        ("key.converter.schema.registry.url", url.as_str()),
        ("transforms.outbox.table.fields.additional.placement", "type:envelope:eventType"),
    ];
    let _relay = Relay::start(&avro_values(&db, &url, &settings));
    db.wait_until_streaming();
    db.insert(&[order(r#"{"a": 1}"#), order(r#"{"a": 2}"#)]);
    let records = kafka().read(&db.topic("order"), 2);

    let (schema, key) = registry().read(records[0].key.as_deref().unwrap());
    assert_eq!((schema.as_str(), key), (r#""string""#, Avro::String("o-1".into())));
    let name = db.name();
    for (record, payload) in records.iter().zip([r#"{"a": 1}"#, r#"{"a": 2}"#]) {
        let (schema, value) = registry().read(record.value.as_deref().unwrap());
        let payload_type = format!(r#"{{"name":"payload","type":{JSON},"default":null}}"#);
        let expected = format!(
            r#"{{"type":"record","name":"Value","namespace":"{name}.public.outbox.order","fields":[{payload_type},{{"name":"eventType","type":"string"}}],"connect.name":"{name}.public.outbox.order.Value"}}"#
        );
        assert_eq!(schema, expected);
        let event_type = Avro::String("OrderCreated".into());
        let fields = vec![("payload".into(), text(payload)), ("eventType".into(), event_type)];
        assert_eq!(value, Avro::Record(fields));
    }
    let subjects = registry().subjects();
    for part in ["key", "value"] {
        assert!(subjects.contains(&format!("{}-{part}", db.topic("order"))), "{subjects:?}");
    }
}

#[test]
fn a_snapshot_and_null_payloads_go_through_the_registry_too() {
    let db = Outbox::create(postgres15());
    db.insert(&[order("{}"), Event { payload: None, ..order("") }]);
    let _relay = Relay::start(&avro_values(&db, &registry().url(), &[("snapshot.mode", "initial")]));
    let records = kafka().read(&db.topic("order"), 2);
    let values: Vec<_> = records.iter().map(|record| record.value.as_deref()).collect();
    assert_eq!(registry().read(values[0].unwrap()), (JSON.to_owned(), text("{}")));
    assert_eq!(values[1], None);
}

#[test]
fn a_registry_that_is_down_is_waited_for_and_holds_up_no_stop() {
    let db = Outbox::create(postgres18());
    let port = unused_port().unwrap();
    let config = avro_values(&db, &url(port), &[("status.update.interval.ms", "500")]);
    let mut relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&[order("{}")]);
    relay.wait_for_stderr("component is down");
    relay.terminate();
    assert_eq!(relay.wait_for_exit(DEADLINE), 0, "{}", relay.stderr());

    let status_port = unused_port().unwrap();
    let _relay = Relay::start_with(&config, &["--http", &format!("127.0.0.1:{status_port}")], &[]);
    get_until(status_port, "/readyz", "names the registry", |page| {
        page.code == 503 && page.body.contains("registry")
    });
    db.insert(&[order("[]")]);
    db.wait_for_status_updates(Duration::from_secs(3));
    let registry = Registry::start(port);
    let records = kafka().read(&db.topic("order"), 2);
    let payloads: Vec<_> =
        records.iter().map(|record| registry.read(record.value.as_deref().unwrap()).1).collect();
    assert_eq!(payloads, [text("{}"), text("[]")]);
    get_until(status_port, "/readyz", "is ready again", |page| page.code == 200);
    assert_eq!(kafka().records(&db.topic("order")).len(), 2);
}

#[test]
fn an_incompatible_schema_stops_the_relay_behind_what_came_before() {
    let db = Outbox::create(postgres15());
    let subject = format!("{}-value", db.topic("order"));
    registry().register(&subject, r#""int""#);
    registry().set_compatibility(&subject, "BACKWARD");
    let mut relay = Relay::start(&avro_values(&db, &registry().url(), &[]));
    db.wait_until_streaming();
    db.insert(&[Event::new("invoice", "i-1", "InvoiceSent", "{}")]);
    db.insert(&[order("{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains(&format!("refuses the schema of subject {subject} as incompatible")), "{said}");
    assert!(said.contains(&format!("PUT /config/{subject}")), "{said}");
    assert_eq!(kafka().read(&db.topic("invoice"), 1).len(), 1);
}

#[test]
fn rows_without_a_schema_are_skipped_when_asked_for() {
    let db = Outbox::create(postgres18());
    let settings = [("value.converter.auto.register.schemas", "false"), ("errors.tolerance", "all")];
    registry().register(&format!("{}-value", db.topic("known")), JSON);
    let relay = Relay::start(&avro_values(&db, &registry().url(), &settings));
    db.wait_until_streaming();
    db.insert(&[order("{}"), Event::new("known", "k-1", "Known", "{}")]);
    let records = kafka().read(&db.topic("known"), 1);
    assert_eq!(registry().read(records[0].value.as_deref().unwrap()).1, text("{}"));
    let said = relay.stop_and_tell();
    assert!(said.contains("has no such schema under subject"), "{said}");
    db.insert(&[order("{}")]);
    let mut refused = Relay::start(&avro_values(&db, &registry().url(), &settings[..1]));
    assert_eq!(refused.wait_for_exit(DEADLINE), 6, "{}", refused.stderr());
    assert!(fix_of(&refused).contains("set value.converter.auto.register.schemas=true"));
    let registers = [("value.converter.auto.register.schemas", "true")];
    let relay = Relay::start(&avro_values(&db, &registry().url(), &registers));
    assert_eq!(kafka().read(&db.topic("order"), 1).len(), 1);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn the_latest_version_is_used_when_it_is_of_the_rows_form() {
    let db = Outbox::create(postgres15());
    let id = registry().register(&format!("{}-value", db.topic("order")), r#"["null","string"]"#);
    registry().register(&format!("{}-value", db.topic("other")), r#""string""#);
    let settings =
        [("value.converter.auto.register.schemas", "false"), ("value.converter.use.latest.version", "true")];
    let mut relay = Relay::start(&avro_values(&db, &registry().url(), &settings));
    db.wait_until_streaming();
    db.insert(&[order("{}")]);
    let records = kafka().read(&db.topic("order"), 1);
    assert_eq!(records[0].value.as_deref().unwrap()[1..5], id.to_be_bytes());
    db.insert(&[Event::new("other", "1", "Other", "{}")]);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    assert!(relay.stderr().contains("does not match the rows"), "{}", relay.stderr());
}

/// Records that Debezium 3.6.0.Final wrote with Apicurio's converter; each schema id is replaced with the schema. A
/// case's records are in the order of their keys and values.
const RECORDED: &str = include_str!("../cases/avro.json");

#[test]
fn records_are_those_of_debezium() {
    let cases: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    for case in &cases {
        let expected: Vec<Value> = serde_json::from_value(case["records"].clone()).unwrap();
        assert_eq!(relayed(case, expected.len()), expected, "{}", case["name"]);
    }
}

fn relayed(case: &Value, count: usize) -> Vec<Value> {
    let db = Outbox::create_bare(postgres18(), case["table"].as_str().unwrap());
    let mut config = with(db.config(kafka()), &[("topic.prefix", "avrotrial")]);
    for part in ["key", "value"] {
        config.extend(apicurio(part).map(|(key, value)| (key, Value::from(value))));
    }
    config.extend(case["config"].as_object().unwrap().clone());
    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(case["insert"].as_str().unwrap());
    let mut records = kafka().read(&db.topic("order"), count);
    records.sort_by(|a, b| (&a.key, &a.value).cmp(&(&b.key, &b.value)));
    let shown = |bytes: Option<&[u8]>| bytes.map_or(Value::Null, in_full);
    let record = |record: &Record| json!({ "key": shown(record.key.as_deref()), "value": shown(record.value.as_deref()) });
    records.iter().map(record).collect()
}

fn apicurio(part: &str) -> [(String, String); 6] {
    let url = registry().url().replace("/apis/ccompat/v7", "/apis/registry/v2");
    let option =
        |name: &str, value: &str| (format!("{part}.converter.apicurio.registry.{name}"), value.to_owned());
    [
        (format!("{part}.converter"), APICURIO.to_owned()),
        option("url", &url),
        option("auto-register", "true"),
        option("as-confluent", "true"),
        option("use-id", "contentId"),
        option("headers.enabled", "false"),
    ]
}

/// Returns the schema instead of its id, and the body in hex.
fn in_full(bytes: &[u8]) -> Value {
    let [0, a, b, c, d, body @ ..] = bytes else { panic!("no magic byte and id: {bytes:?}") };
    let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "schema": registry().schema(u32::from_be_bytes([*a, *b, *c, *d])), "body": hex })
}
