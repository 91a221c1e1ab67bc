//! Tables that are altered while the catalog is asked for them.

use outboxd::internals::throwaway::unused_port;
use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;

const ROWS: usize = 120;

/// Some of them in the moment between two looks at the catalog, if there were two.
#[test]
fn rows_have_all_columns_however_often_a_type_changes() {
    let db = Outbox::create_bare(postgres18(), "create table a (id int primary key, v text)");
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    for id in 0..ROWS {
        let kind = if id % 2 == 0 { "text" } else { "varchar(90)" };
        db.execute(&format!("insert into a values ({id}, 'x')"));
        db.execute(&format!("alter table a alter v type {kind}"));
    }
    for record in kafka().read(&topic(&db, "a"), ROWS) {
        let value: Value = serde_json::from_str(record.value()).unwrap();
        assert_eq!(value["after"]["v"], "x", "{}", record.value());
    }
    assert_eq!(relay.stop(), 0);
}

/// The bytes are Debezium's; the relay reports that they are about another row.
#[test]
fn a_replica_identity_without_the_key_is_reported() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE \"T\" (id int PRIMARY KEY, code text NOT NULL UNIQUE); ALTER TABLE \"T\" REPLICA IDENTITY USING INDEX \"T_code_key\"",
    );
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO \"T\" VALUES (5, 'five'); DELETE FROM \"T\" WHERE id = 5");
    kafka().read(&topic(&db, "T"), 3);
    let said = relay.stop_and_tell();
    assert!(said.contains("lacks id of its key") && said.contains("REPLICA IDENTITY FULL"), "{said}");
    let (_, fix) = said.split_once("To fix: ").unwrap();
    db.execute(&fix.split(';').next().unwrap().replace('\\', ""));
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO \"T\" VALUES (6, 'six'); DELETE FROM \"T\" WHERE id = 6");
    let records = kafka().read(&topic(&db, "T"), 6);
    assert!(records.iter().any(|record| record.value.is_none() && record.key() == r#"{"id":6}"#));
    assert!(!relay.stop_and_tell().contains("of its key"));
}

/// The usual way to make an enumeration a text: the rows that were written before are read after it.
#[test]
fn rows_of_a_type_that_was_dropped_have_their_text() {
    let schema =
        "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TYPE size AS ENUM ('s'); CREATE DOMAIN count AS int;
                  CREATE TABLE a (id int PRIMARY KEY, m mood, s size, n count)";
    let db = Outbox::create_bare(postgres18(), schema);
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    db.execute("INSERT INTO a VALUES (1, 'sad', 's', 5)");
    db.execute("ALTER TABLE a ALTER m TYPE text; DROP TYPE mood");
    db.execute(
        "CREATE TYPE other AS ENUM ('s', 'm'); ALTER TABLE a ALTER s TYPE other USING s::text::other; DROP TYPE size",
    );
    db.execute("ALTER TABLE a ALTER n TYPE int; DROP DOMAIN count");
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&config(&db, &[]), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    let record = kafka().read(&topic(&db, "a"), 1).remove(0);
    let value: Value = serde_json::from_str(record.value()).unwrap();
    // A value that the current type cannot represent is not in the event, and is reported.
    assert_eq!(value["after"], json!({"id": 1, "m": "sad", "s": "s"}));
    get_until(port, "/readyz", "tells of the column", |page| {
        page.code == 200 && page.body.contains("column \\\"n\\\" of table public.a is in no event")
    });
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_column_that_comes_later_and_is_in_no_event_is_reported() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TYPE pair AS (a int, b int); CREATE TABLE a (id int PRIMARY KEY)",
    );
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO a VALUES (1)");
    db.execute("ALTER TABLE a ADD COLUMN p pair");
    db.execute("INSERT INTO a VALUES (2, (1, 2)); INSERT INTO a VALUES (3, (1, 2))");
    kafka().read(&topic(&db, "a"), 3);
    let said = relay.stop_and_tell();
    assert_eq!(said.matches("is in no event").count(), 1, "{said}");
    // A start reports it as well.
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO a VALUES (4, (1, 2))");
    kafka().read(&topic(&db, "a"), 4);
    let said = relay.stop_and_tell();
    assert_eq!(said.matches("is in no event").count(), 1, "{said}");
}

/// Its router needs the column.
#[test]
fn an_event_whose_type_was_dropped_is_sent() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TYPE kind AS ENUM ('order'); CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype kind, aggregateid text, type text, payload jsonb)",
    );
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    db.execute("INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'k', 't', '{}')");
    db.execute("ALTER TABLE outbox ALTER aggregatetype TYPE text; DROP TYPE kind");
    let relay = Relay::start(&db.config(kafka()));
    assert_eq!(kafka().read(&db.topic("order"), 1)[0].key(), "k");
    assert_eq!(relay.stop(), 0);
}

/// The stream does not contain the key of a table with a full replica identity, and the catalog no longer has it.
#[test]
fn rows_of_a_table_that_was_dropped_have_the_key_that_they_had() {
    let schema = "CREATE TABLE a (id int, place text, v text, PRIMARY KEY (place, id)); ALTER TABLE a REPLICA IDENTITY FULL;
                  CREATE TABLE b (id int PRIMARY KEY); ALTER TABLE b REPLICA IDENTITY FULL";
    let db = Outbox::create_bare(postgres18(), schema);
    let schemas = [("key.converter.schemas.enable", "true"), ("table.include.list", "public.a,public.b")];
    let config = config(&db, &schemas);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute("INSERT INTO a VALUES (1, 'x', 'first')");
    let before = kafka().read(&topic(&db, "a"), 1).remove(0);
    assert!(before.key().contains("place"), "{}", before.key());
    assert_eq!(relay.stop(), 0);
    // The first process has read no row of the second table.
    db.execute("UPDATE a SET v = 'second'; DELETE FROM a; INSERT INTO b VALUES (7)");
    db.execute("DROP TABLE a; DROP TABLE b");
    let relay = Relay::start(&config);
    db.wait_until_confirmed();
    // The update, the delete and its tombstone.
    let records = kafka().records(&topic(&db, "a"));
    assert_eq!(records.len(), 4, "{records:?}");
    assert!(records.iter().all(|record| record.key() == before.key()), "{records:?}");
    let of_second = kafka().read(&topic(&db, "b"), 1).remove(0);
    assert!(of_second.key().ends_with(r#""payload":{"id":7}}"#), "{}", of_second.key());
    let said = relay.stop_and_tell();
    assert!(!said.contains("have no key"), "{said}");
}

#[test]
fn records_of_a_dropped_table_whose_key_is_unknown_are_reported() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE a (id int PRIMARY KEY)");
    let settings =
        [("publication.autocreate.mode", "all_tables"), ("table.include.list", "public.a,public.c")];
    let config = config(&db, &settings);
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
    let live =
        "CREATE TABLE c (id int PRIMARY KEY); ALTER TABLE c REPLICA IDENTITY FULL; INSERT INTO c VALUES (7)";
    db.execute(live);
    db.execute("DROP TABLE c");
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    get_until(port, "/readyz", "names the table", |page| {
        page.body.contains("records of table public.c have no key")
    });
    get_until(port, "/metrics", "counts it", |page| page.body.contains("\noutboxd_warnings 1\n"));
    assert_eq!(kafka().read(&topic(&db, "c"), 1)[0].key, None);
    let said = relay.stop_and_tell();
    assert!(said.contains("-X message.key.columns=public.c:COLUMN,COLUMN"), "{said}");
    // The statement of the message.
    db.execute(live);
    db.execute("DROP TABLE c");
    let relay = Relay::start_with(&config, &["-X", "message.key.columns=public.c:id"], &[]);
    let records = kafka().read(&topic(&db, "c"), 2);
    assert!(records.iter().any(|record| record.key.as_deref() == Some(br#"{"id":7}"#)), "{records:?}");
    assert!(!relay.stop_and_tell().contains("have no key"));
}
