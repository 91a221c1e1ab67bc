//! One configuration in every form that people have it in.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::{Config, Relay, with};

/// Debezium Server has names of its own for the converters.
const CONVERTERS: [(&str, &str); 4] = [
    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("header.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("value.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ("value.converter.schemas.enable", "false"),
];
const FORMATS: [(&str, &str); 4] = [
    ("debezium.format.key", "simplestring"),
    ("debezium.format.header", "simplestring"),
    ("debezium.format.value", "json"),
    ("debezium.format.value.schemas.enable", "false"),
];

#[test]
fn every_form_of_a_configuration_makes_the_same_record() {
    let db = Outbox::create(postgres18());
    let config = db.config(kafka());
    let connect = with(config.clone(), &CONVERTERS);
    let wrapped = json!({ "name": "orders", "config": connect });
    let json = [wrapped.to_string(), Value::Object(connect.clone()).to_string()];
    let mut records: Vec<Record> =
        json.iter().map(|json| relay_one(&db, &[("connector.json", json)], &[], &[])).collect();

    let properties = properties(&pairs(&connect), "${routedByValue}");
    records.push(relay_one(&db, &[("connector.properties", &properties)], &[], &[]));

    for spelling in ["${routedByValue}", "$${routedByValue}", r"\${routedByValue}", r"\\${routedByValue}"] {
        let text = self::properties(&server(&config), spelling);
        records.push(relay_one(&db, &[("application.properties", &text)], &[], &[]));
    }
    records.push(relay_one(&db, &[], &[], &variables("OUTBOXD_", &pairs(&connect))));
    records.push(relay_one(&db, &[], &[], &variables("", &server(&config))));

    let settings: Vec<String> = pairs(&connect).iter().map(|(key, value)| format!("{key}={value}")).collect();
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["-X", setting]).collect();
    records.push(relay_one(&db, &[], &arguments, &[]));

    assert_eq!(records[0].value(), r#""{\"n\": 1}""#);
    for (n, record) in records.iter().enumerate() {
        assert_eq!(content(record), content(&records[0]), "form {n}");
    }
}

#[test]
fn the_command_line_wins_over_the_environment_and_that_over_files() {
    let db = Outbox::create(postgres18());
    let key = "transforms.outbox.route.topic.replacement";
    let name = |suffix: &str| format!("{}.{suffix}.${{routedByValue}}", db.name());
    let file = with(db.config(kafka()), &[(key, &name("file"))]);
    let text = Value::Object(file).to_string();
    let environment = [("OUTBOXD_TRANSFORMS_OUTBOX_ROUTE_TOPIC_REPLACEMENT".to_owned(), name("environment"))];
    let argument = format!("{key}={}", name("argument"));
    let files = [("connector.json", text.as_str())];
    for (arguments, variables, winner) in [
        (&["-X", argument.as_str()][..], &environment[..], "argument"),
        (&[], &environment, "environment"),
        (&[], &[], "file"),
    ] {
        let relay = Relay::start_from(&files, arguments, variables);
        db.wait_until_streaming();
        db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
        kafka().read(&db.topic(&format!("{winner}.order")), 1);
        assert_eq!(relay.stop(), 0);
    }
}

/// Relays one row, the same one each time, with the configuration from these sources.
fn relay_one(
    db: &Outbox,
    files: &[(&str, &str)],
    arguments: &[&str],
    variables: &[(String, String)],
) -> Record {
    let topic = db.topic("order");
    let count = kafka().records(&topic).len();
    // The forms name the connector differently, and each name has a position of its own for the one slot.
    let arguments = [arguments, &["-X", "outboxd.position.topic="]].concat();
    let relay = Relay::start_from(files, &arguments, variables);
    db.wait_until_streaming();
    db.execute(
        "DELETE FROM outbox;
         INSERT INTO outbox VALUES ('00000000-0000-4000-8000-000000000001', 'order', 'o-1', 'OrderCreated', '{\"n\": 1}')",
    );
    let record = kafka().read(&topic, count + 1).remove(count);
    assert_eq!(relay.stop(), 0);
    record
}

/// Returns the content of a record that is equal in every run.
fn content(record: &Record) -> Record {
    let mut record = Record { offset: 0, timestamp_ms: 0, ..record.clone() };
    record.headers.retain(|(name, _)| name != "__debezium.context.runId");
    record
}

fn pairs(config: &Config) -> Vec<(String, String)> {
    config.iter().map(|(key, value)| (key.clone(), value.as_str().unwrap().to_owned())).collect()
}

/// Returns the keys in the form of Debezium Server.
fn server(config: &Config) -> Vec<(String, String)> {
    let key = |key: &str| match key {
        "bootstrap.servers" => "debezium.sink.kafka.producer.bootstrap.servers".to_owned(),
        _ if key.starts_with("transforms") => format!("debezium.{key}"),
        _ => format!("debezium.source.{key}"),
    };
    let formats = FORMATS.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let sink = ("debezium.sink.type".to_owned(), "kafka".to_owned());
    let ours = pairs(config).into_iter().map(|(name, value)| (key(&name), value));
    ours.chain(formats).chain([sink]).collect()
}

fn properties(pairs: &[(String, String)], routed_by_value: &str) -> String {
    pairs.iter().fold("# written by hand\n".to_owned(), |mut text, (key, value)| {
        writeln!(text, "{key}={}", value.replace("${routedByValue}", routed_by_value)).unwrap();
        text
    })
}

fn variables(prefix: &str, pairs: &[(String, String)]) -> Vec<(String, String)> {
    let shout = |key: &str| key.replace(['.', '-'], "_").to_ascii_uppercase();
    pairs.iter().map(|(key, value)| (format!("{prefix}{}", shout(key)), value.clone())).collect()
}
