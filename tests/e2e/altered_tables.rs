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

/// The bytes are Debezium's; that they are about another row is told.
#[test]
fn a_replica_identity_without_the_key_is_told() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL UNIQUE); ALTER TABLE t REPLICA IDENTITY USING INDEX t_code_key",
    );
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO t VALUES (5, 'five'); DELETE FROM t WHERE id = 5");
    kafka().read(&topic(&db, "t"), 3);
    let said = relay.stop_and_tell();
    assert!(said.contains("lacks id of its key") && said.contains("REPLICA IDENTITY FULL"), "{said}");
    db.execute("ALTER TABLE public.t REPLICA IDENTITY FULL");
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    db.execute("INSERT INTO t VALUES (6, 'six'); DELETE FROM t WHERE id = 6");
    let records = kafka().read(&topic(&db, "t"), 6);
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
    // What cannot be said in today's type is left out, and told.
    assert_eq!(value["after"], json!({"id": 1, "m": "sad", "s": "s"}));
    get_until(port, "/readyz", "tells of the column", |page| {
        page.code == 200 && page.body.contains("column \\\"n\\\" of table public.a is in no event")
    });
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_column_that_comes_later_and_is_in_no_event_is_told() {
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
    // A start tells it as well.
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
