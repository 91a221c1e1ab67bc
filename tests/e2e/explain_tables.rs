//! `outboxd explain` of rows that change: of tables, and of the outboxes that EventRouters take among them.

use std::fs;

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::explain::explain;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay};
use crate::support::watcher::Watcher;

fn started(db: &Outbox, config: &Config) -> (Relay, Watcher, String) {
    let folder = Watcher::new("outboxd-explain-");
    let file = folder.folder().join("changes.json").display().to_string();
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let relay = Relay::start(config);
    db.wait_until_streaming();
    (relay, folder, file)
}

fn operations(seen: &Value) -> Vec<&str> {
    let records = seen["records"].as_array().unwrap().iter();
    records.map(|record| record["operation"].as_str().unwrap_or("-")).collect()
}

#[test]
fn each_record_of_a_key_says_what_happened_to_its_row() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE customers (id int PRIMARY KEY, name text)");
    kafka().create_topic(&topic(&db, "customers"), 1, &[]);
    let (_relay, _folder, file) = started(&db, &config(&db, &[]));
    db.execute(
        "INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob'); UPDATE customers SET name = 'Bea' WHERE id = 2",
    );
    db.execute("DELETE FROM customers WHERE id = 1; TRUNCATE customers");
    db.wait_until_confirmed();
    let (exit, seen) = explain(&file, "1", &[]);
    assert_eq!((exit, operations(&seen)), (0, vec!["create", "delete", "tombstone"]), "{seen}");
    let (exit, seen) = explain(&file, "2", &[]);
    assert_eq!((exit, operations(&seen)), (0, vec!["create", "update"]), "{seen}");
    // Skipped operations are truncates unless the configuration names others.
    for (key, told) in [("1", "deleted, or never written"), ("2", "its last record is no delete (update)")] {
        let mut shown = Relay::command(&["explain", key, "-c", &file]);
        assert_eq!(shown.wait_for_exit(crate::support::wait::DEADLINE), 0);
        assert!(shown.stdout().contains(told), "{}", shown.stdout());
    }
}

#[test]
fn a_version_of_a_row_that_no_record_has_is_reported() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE customers (id int PRIMARY KEY, name text)");
    kafka().create_topic(&topic(&db, "customers"), 1, &[]);
    db.execute("INSERT INTO customers VALUES (3, 'there before')");
    let settings = [("skipped.operations", "u,t"), ("snapshot.mode", "initial")];
    let (_relay, _folder, file) = started(&db, &config(&db, &settings));
    db.execute("INSERT INTO customers VALUES (1, 'Ann'), (2, 'Bob')");
    db.execute("UPDATE customers SET name = 'Bea' WHERE id = 2");
    db.execute("INSERT INTO customers VALUES (4, 'Cid')");
    db.wait_until_confirmed();
    for (key, is_behind) in [("1", false), ("2", true), ("3", false), ("4", false)] {
        let mut shown = Relay::command(&["explain", key, "-c", &file]);
        assert_eq!(shown.wait_for_exit(crate::support::wait::DEADLINE), 0, "{key}: {}", shown.stderr());
        let said = shown.stdout();
        assert_eq!(said.contains("none of its records has this transaction"), is_behind, "{key}: {said}");
    }
}

#[test]
fn rows_of_each_router_are_found_by_id_and_by_key() {
    let db = Outbox::create_bare(
        postgres18(),
        "CREATE TABLE first (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, payload text);
         CREATE TABLE second (event_id int PRIMARY KEY, kind text, about text, body text);
         CREATE TABLE orders (id int PRIMARY KEY)",
    );
    let patterns = ["first", "second"].map(|table| topic(&db, table).replace('.', "\\."));
    let replacement = format!("{}.${{routedByValue}}", db.name());
    let matches = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches";
    let router = "io.debezium.transforms.outbox.EventRouter";
    let settings = [
        ("transforms", "one,two"),
        ("transforms.one.type", router),
        ("transforms.one.predicate", "isOne"),
        ("transforms.one.route.topic.replacement", &replacement),
        ("transforms.two.type", router),
        ("transforms.two.predicate", "isTwo"),
        ("transforms.two.route.topic.replacement", &replacement),
        ("transforms.two.route.by.field", "kind"),
        ("transforms.two.table.field.event.id", "event_id"),
        ("transforms.two.table.field.event.key", "about"),
        ("transforms.two.table.field.event.payload", "body"),
        ("predicates", "isOne,isTwo"),
        ("predicates.isOne.type", matches),
        ("predicates.isOne.pattern", &patterns[0]),
        ("predicates.isTwo.type", matches),
        ("predicates.isTwo.pattern", &patterns[1]),
    ];
    let (_relay, _folder, file) = started(&db, &config(&db, &settings));
    let id = "3dd3e317-ff96-4b63-a58c-2d06bc6f07dc";
    db.execute(&format!("INSERT INTO first VALUES ('{id}', 'order', 'k1', 'p')"));
    db.execute("INSERT INTO second VALUES (71, 'payment', 'k2', 'q'); INSERT INTO orders VALUES (9)");
    db.wait_until_confirmed();
    let rows = [("public.first", id, "k1", "order"), ("public.second", "71", "k2", "payment")];
    for (table, id, key, route) in rows {
        for what in [id, key] {
            let (exit, seen) = explain(&file, what, &[]);
            let row = &seen["rows"][0];
            assert_eq!(
                (exit, &row["table"], &row["id"], &row["key"]),
                (0, &json!(table), &json!(id), &json!(key)),
                "{seen}"
            );
            assert_eq!(seen["records"][0]["topic"], format!("{}.{route}", db.name()), "{seen}");
        }
    }
    let (exit, seen) = explain(&file, "9", &[]);
    assert_eq!((exit, &seen["rows"][0]["table"]), (0, &json!("public.orders")), "{seen}");
}
