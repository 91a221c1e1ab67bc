//! Which tables are outboxes, and what may happen to them while the relay streams.

use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::{Columns, Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};

const COLUMNS: &str = "id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb";

#[test]
fn an_idle_outbox_in_a_busy_database_holds_back_no_wal() {
    for server in [postgres15(), postgres18()] {
        let db = Outbox::create(server);
        db.execute("CREATE TABLE other (n int)");
        let _relay = Relay::start(&db.config(kafka()));
        db.wait_until_streaming();
        let before = db.slot().unwrap().confirmed_flush_lsn.unwrap();
        db.execute("INSERT INTO other SELECT generate_series(1, 10000)");
        assert!(db.wait_until_confirmed() > before);
        assert!(kafka().topics(db.name()).is_empty());
    }
}

#[test]
fn columns_come_and_go_while_the_relay_streams() {
    for server in [postgres15(), postgres18()] {
        let schema = format!("CREATE TABLE outbox ({COLUMNS}, legacy int NOT NULL DEFAULT 7)");
        let db = Outbox::create_bare(server, &schema);
        let _relay = Relay::start(&db.config(kafka()));
        db.wait_until_streaming();
        db.execute(&insert("outbox", 1));
        db.execute("ALTER TABLE outbox ADD COLUMN note text DEFAULT 'x'");
        db.execute(&insert("outbox", 2));
        db.execute("ALTER TABLE outbox DROP COLUMN legacy");
        db.execute(&insert("outbox", 3));
        db.execute(&format!(
            "BEGIN; {}; ALTER TABLE outbox ADD COLUMN more int; {}; ALTER TABLE outbox DROP COLUMN note; {}; COMMIT",
            insert("outbox", 4),
            insert("outbox", 5),
            insert("outbox", 6)
        ));
        db.execute("ALTER TABLE outbox ALTER COLUMN aggregateid TYPE varchar(64)");
        db.execute(&insert("outbox", 7));
        db.wait_until_confirmed();
        assert_eq!(published(&db), [1, 2, 3, 4, 5, 6, 7]);
    }
}

#[test]
fn two_tables_that_a_regular_expression_names_are_both_outboxes() {
    let schema = format!(
        "CREATE SCHEMA sales;
         CREATE TABLE public.outbox_orders ({COLUMNS});
         CREATE TABLE sales.outbox_invoices ({COLUMNS});
         CREATE TABLE sales.my_outbox_invoices ({COLUMNS});
         CREATE TABLE sales.other ({COLUMNS})"
    );
    let db = Outbox::create_bare(postgres18(), &schema);
    let tables = r"public\.outbox_.*, (?:public|sales)\.OUTBOX_invoices";
    let _relay = Relay::start(&with(db.config(kafka()), &[("table.include.list", tables)]));
    db.wait_until_streaming();
    let names = ["sales.my_outbox_invoices", "public.outbox_orders", "sales.other", "sales.outbox_invoices"];
    let transaction: Vec<String> = names.iter().zip(1..).map(|(name, n)| insert(name, n)).collect();
    db.execute(&transaction.join(";"));
    db.wait_until_confirmed();
    assert_eq!(published(&db), [2, 4]);
}

#[test]
fn a_table_whose_name_needs_quotes_is_an_outbox() {
    let db = Outbox::create_bare(postgres18(), &format!("CREATE TABLE \"Out Box\" ({COLUMNS})"));
    let _relay = Relay::start(&with(db.config(kafka()), &[("table.include.list", "public.Out Box")]));
    db.wait_until_streaming();
    db.execute(&insert("\"Out Box\"", 1));
    db.wait_until_confirmed();
    assert_eq!(published(&db), [1]);
}

#[test]
fn a_partitioned_outbox_is_one_outbox() {
    for (server, via_root) in [(postgres15(), "true"), (postgres18(), "false"), (postgres18(), "true")] {
        let schema = format!(
            "CREATE TABLE outbox ({COLUMNS}) PARTITION BY HASH (id);
             CREATE TABLE outbox_0 PARTITION OF outbox FOR VALUES WITH (MODULUS 2, REMAINDER 0);
             CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES WITH (MODULUS 2, REMAINDER 1)"
        );
        let db = Outbox::create_bare(server, &schema);
        let _relay = Relay::start(&with(db.config(kafka()), &[("publish.via.partition.root", via_root)]));
        db.wait_until_streaming();
        let transaction: Vec<String> = (1..=20).map(|n| insert("outbox", n)).collect();
        db.execute(&transaction.join(";"));
        db.wait_until_confirmed();
        assert_eq!(published(&db), Vec::from_iter(1..=20), "publish.via.partition.root={via_root}");
    }
}

#[test]
fn the_snake_case_twins_of_the_default_columns_serve() {
    let db = Outbox::create_with(postgres15(), Columns::SnakeCase);
    let relay = Relay::start(&db.config(kafka()));
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "o-1", "OrderCreated", "{\"n\": 1}")]);
    db.wait_until_confirmed();
    assert_eq!(published(&db), [1]);
    for column in ["aggregate_type", "aggregate_id"] {
        assert!(relay.stderr().contains(column), "the assumption about {column} is told: {}", relay.stderr());
    }
}

fn insert(table: &str, n: u32) -> String {
    format!(
        "INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload)
         VALUES (gen_random_uuid(), 'order', 'o-1', 'Numbered', '{{\"n\": {n}}}')"
    )
}

/// Returns the numbers in the payloads, in order: one key, so one partition.
fn published(db: &Outbox) -> Vec<u64> {
    let records = kafka().records(&db.topic("order"));
    let number = |value: &str| serde_json::from_str::<Value>(value).unwrap()["n"].as_u64().unwrap();
    records.iter().map(|record| number(record.value())).collect()
}
