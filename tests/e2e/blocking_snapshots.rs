//! Blocking snapshots: the stream waits for them.

use crate::signals::{TABLES, count_of, last_states, rows, signal, start};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;

#[test]
fn the_stream_waits_for_a_blocking_snapshot() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("insert into a select g, g, g from generate_series(1, 3000) g");
    let relay = start(&db, &[]);
    db.execute(
        "insert into signals values ('b-1', 'execute-snapshot', '{\"data-collections\": [\"public.a\"], \"type\": \"blocking\"}'); \
         update a set v = 0 where id = 3000",
    );
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!((count_of(&db, "first"), count_of(&db, "true"), count_of(&db, "last")), (1, 2_998, 1));
    assert_eq!(last_states(&db), rows(&db));
}

/// What is written while it waits is in it.
#[test]
fn a_blocking_snapshot_waits_as_the_delay_says() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    db.execute("create table b (id int primary key)");
    let relay = start(&db, &[("snapshot.delay.ms", "1500")]);
    signal(
        &db,
        "b-1",
        "execute-snapshot",
        r#"{"data-collections": ["public.a", "public.b"], "type": "blocking"}"#,
    );
    relay.wait_for_stderr("waiting for snapshot.delay.ms");
    db.execute("insert into a values (1, 1, 1), (2, 2, 2)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    // The last table has no rows.
    assert_eq!((count_of(&db, "first"), count_of(&db, "last")), (1, 1));
    assert_eq!(last_states(&db), rows(&db));
}

/// The name is quoted as Debezium's documentation quotes it.
#[test]
fn values_of_a_signals_statement_go_to_the_columns_of_their_names() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let table = "create table \"My.Table\" (\"I d\" int primary key, v int, w int); insert into \"My.Table\" values (1, 2, 3)";
    db.execute(table);
    let relay = start(&db, &[]);
    let data = r#"{"data-collections": ["\"public\".\"My.Table\""], "type": "blocking", "additional-conditions":
        [{"data-collection": "\"public\".\"My.Table\"", "filter": "select 7 as other, w, \"I d\", v from \"My.Table\""}]}"#;
    signal(&db, "b-1", "execute-snapshot", data);
    relay.wait_for_stderr("a selected column does not exist in the table");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let records = kafka().records(&format!("{}.public.My.Table", db.name()));
    assert_eq!(records.len(), 1);
    assert!(records[0].value().contains(r#""after":{"I d":1,"v":2,"w":3}"#), "{}", records[0].value());
}
