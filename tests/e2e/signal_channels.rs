//! Signals that come from a topic of Kafka or from a file.

use std::fs;

use outboxd::internals::throwaway::unused_port;
use rdkafka::producer::BaseRecord;

use crate::signals::{LONG, TABLES, count_of, start, wait_until_told};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::wait::eventually;

#[test]
fn signals_come_from_a_topic_and_from_a_file() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g, g from generate_series(1, 10) g");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signals.txt");
    let signals = format!("{}-signal", db.name());
    kafka().create_topic(&signals, 1, &[]);
    let relay = start(
        &db,
        &[
            ("signal.enabled.channels", "kafka,file"),
            ("signal.file", file.to_str().unwrap()),
            ("signal.poll.interval.ms", "50"),
            ("read.only", "true"),
        ],
    );
    let execute = r#"{"id": "k-1", "type": "execute-snapshot", "data": {"data-collections": ["public.a"], "additional-conditions": [{"data-collection": "public.a", "filter": "id <= 4"}]}}"#;
    kafka().produce(BaseRecord::to(&signals).key(b"another".as_slice()).payload(execute.as_bytes()));
    kafka().produce(BaseRecord::to(&signals).key(db.name().as_bytes()).payload(execute.as_bytes()));
    wait_until_told(&db, "COMPLETED");
    assert_eq!(count_of(&db, "incremental"), 4);
    fs::write(
        &file,
        "not json\n{\"id\": \"f-1\", \"type\": \"log\", \"data\": {\"message\": \"hello there\"}}\n",
    )
    .unwrap();
    relay.wait_for_stderr("hello there");
    eventually(LONG, "an empty file", || fs::read_to_string(&file).unwrap().is_empty());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn signals_are_read_from_the_kafka_that_they_are_said_to_be_in() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    kafka().create_topic(&format!("{}-signal", db.name()), 1, &[]);
    let nobody = format!("localhost:{}", unused_port().unwrap());
    let relay = start(
        &db,
        &[
            ("signal.enabled.channels", "kafka"),
            ("signal.kafka.bootstrap.servers", &nobody),
            ("read.only", "true"),
        ],
    );
    relay.wait_for_stderr("cannot read signals; retrying");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_topic_of_signals_that_is_not_there_is_reported_and_read_once_it_is() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let signals = format!("{}-signal", db.name());
    let relay = start(&db, &[("signal.enabled.channels", "kafka"), ("read.only", "true")]);
    let warning = relay.wait_for_stderr("cannot read signals from the topic");
    let (_, line) = warning.split_once("kafka-topics.sh ").unwrap();
    kafka().run_tool(&format!("kafka-topics.sh {}", line.split([',', ';', '"']).next().unwrap()));
    let log = r#"{"id": "k-1", "type": "log", "data": {"message": "hello there"}}"#;
    kafka().produce(BaseRecord::to(&signals).key(db.name().as_bytes()).payload(log.as_bytes()));
    relay.wait_for_stderr("hello there");
    assert_eq!(relay.stop(), 0);
}
