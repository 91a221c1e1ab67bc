//! An outbox without a table: `pg_logical_emit_message`, decoded before the router.

use crate::printed_fixes::{fix_of, setting};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::DEADLINE;

const DECODER: &str = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent";

#[test]
fn messages_need_no_table_and_survive_a_crash() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create_bare(server, "SELECT 1");
        let mut relay = Relay::start(&config(&db));
        db.wait_until_streaming();
        emit(&db, true, "outbox", &event("1"));
        assert_eq!(kafka().read(&db.topic("order"), 1)[0].header("id"), "1");
        relay.kill();
        emit(&db, true, "outbox", &event("2"));
        emit(&db, false, "outbox", &event("3"));
        emit(&db, true, "outbox", &event("4"));
        let relay = Relay::start(&config(&db));
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
        let records = kafka().records(&db.topic("order"));
        let mut ids: Vec<_> = records.iter().map(|record| record.header("id")).collect();
        // The first may have been sent and not yet confirmed.
        ids.dedup();
        assert_eq!(ids, ["1", "2", "3", "4"]);
    }
}

#[test]
fn a_message_that_is_no_event_stops_the_relay_or_is_skipped() {
    let db = Outbox::create_bare(postgres18(), "SELECT 1");
    let mut relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    emit(&db, false, "outbox", "hunter2 is no JSON");
    emit(&db, true, "other", "nor is this, of another program");
    emit(&db, true, "outbox", &event("1"));
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let said = relay.stderr();
    assert!(said.contains("prefix \\\"outbox\\\"") && said.contains("not JSON"), "{said}");
    assert!(!said.contains("hunter2"), "the content is shown: {said}");

    let relay = Relay::start(&with(config(&db), &[("errors.tolerance", "all")]));
    assert_eq!(kafka().read(&db.topic("order"), 1)[0].header("id"), "1");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_message_without_a_field_is_an_event_after_the_fix() {
    let db = Outbox::create_bare(postgres18(), "SELECT 1");
    let mut relay = Relay::start(&config(&db));
    db.wait_until_streaming();
    emit(&db, true, "outbox", r#"{"id":"1","aggregateType":"order","aggregateId":"7","payload":null}"#);
    assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
    let fix = fix_of(&relay);
    let (key, value) = setting(&fix, "fields.null.include");
    let key = format!("transforms.decode.{key}");
    let relay = Relay::start(&with(config(&db), &[(key.as_str(), value)]));
    assert_eq!(kafka().read(&db.topic("order"), 1)[0].header("id"), "1");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

fn config(db: &Outbox) -> Config {
    let settings = [
        ("transforms", "decode,outbox"),
        ("transforms.decode.type", DECODER),
        ("transforms.outbox.table.field.event.key", "aggregateId"),
        ("transforms.outbox.route.by.field", "aggregateType"),
        ("message.prefix.include.list", "outbox"),
        ("snapshot.mode", "no_data"),
    ];
    let mut config = with(db.config(kafka()), &settings);
    config.remove("table.include.list");
    config
}

fn event(id: &str) -> String {
    format!(r#"{{"id":"{id}","aggregateType":"order","aggregateId":"7","payload":{{"n":{id}}}}}"#)
}

fn emit(db: &Outbox, transactional: bool, prefix: &str, content: &str) {
    // A commit flushes the WAL, which a message outside a transaction does not.
    let sql = format!(
        "SELECT pg_logical_emit_message({transactional}, '{prefix}', '{content}'); SELECT txid_current()"
    );
    db.execute(&sql);
}
