//! Tables that are altered while the catalog is asked for them.

use serde_json::Value;

use crate::changes::{config, topic};
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
