//! Incremental snapshots that Debezium had not ended when outboxd took its slot over.

use crate::offsets::{changes, of_changes, offset_topic, store, told};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// The snapshot's progress in the table is unknown, so all of its rows are sent; rows that were not requested are not.
#[test]
fn an_incremental_snapshot_that_debezium_has_not_ended_continues() {
    let tables = "CREATE TABLE stock (id int PRIMARY KEY, n int); \
                  CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048))";
    let db = Outbox::create_bare(postgres18(), tables);
    kafka().create_topic(&format!("{}.public.stock", db.name()), 1, &[]);
    db.execute("INSERT INTO stock SELECT g, g FROM generate_series(1, 9) g");
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE stock, signals", db.name()));
    let unheard = format!("{}_unheard", db.name());
    for slot in [db.name(), &unheard] {
        db.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&slot]);
    }
    db.execute("INSERT INTO stock VALUES (10, 10)");
    let (topic, sent) = (offset_topic(&db), changes(&db)[0].offset());
    let left = r#""incremental_snapshot_maximum_key":"aced00057572","incremental_snapshot_collections":"[{\"incremental_snapshot_collections_id\":\"public.stock\",\"incremental_snapshot_collections_additional_condition\":\"id > 2\",\"incremental_snapshot_collections_surrogate_key\":null,\"incremental_snapshot_collections_correlation_id\":\"backfill\"}]","incremental_snapshot_primary_key":"aced00057572","incremental_snapshot_correlation_id":"backfill""#;
    store(&db, &topic, Some(&format!("{},{left}}}", sent.trim_end_matches('}'))));
    let config =
        of_changes(&db, &[("offset.storage.topic", &topic), ("offset.flush.interval.ms", "3600000")]);

    let signals = [("signal.data.collection", "public.signals"), ("incremental.snapshot.chunk.size", "4")];
    let relay = Relay::start(&with(config.clone(), &signals));
    relay.wait_for_stderr("Debezium had not finished an incremental snapshot");
    let expected: Vec<_> = (3..=10).map(|id| format!(r#"r {{"id":{id}}}"#)).collect();
    eventually(DEADLINE, "all rows that were asked for", || told(&db).len() >= expected.len());
    assert_eq!(relay.stop(), 0);
    assert_eq!(told(&db), expected, "and not what Debezium has sent");

    store(&db, &topic, Some(&format!("{},{left}}}", sent.trim_end_matches('}'))));
    let relay = Relay::start(&with(config, &[("slot.name", &unheard)]));
    relay.wait_for_stderr("send the signal execute-snapshot again");
    assert_eq!(relay.stop(), 0);
    assert_eq!(told(&db).len(), expected.len());
}
