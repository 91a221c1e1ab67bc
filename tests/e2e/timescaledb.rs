//! The transform TimescaleDb. TimescaleDB itself is not there: its catalog is made by hand. What records look like is in
//! `tests/cases/tables`.

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::check::check;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay};
use crate::support::wait::DEADLINE;

const CATALOG: &str = "
    set allow_system_table_mods = on;
    insert into pg_extension select 4000000000, 'timescaledb', 10, 11, true, '2.26.1', null, null;
    create schema _timescaledb_catalog; create schema _timescaledb_internal;
    create table _timescaledb_catalog.hypertable (id int primary key, schema_name name, table_name name);
    create table _timescaledb_catalog.chunk (id int primary key, hypertable_id int, schema_name name, table_name name);
    create table _timescaledb_catalog.continuous_agg (mat_hypertable_id int, user_view_schema name, user_view_name name);
    create table conditions (id int primary key, degrees int);
    insert into _timescaledb_catalog.hypertable values (1, 'public', 'conditions')";

fn with_transform(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    let chain = [
        ("transforms", "ts"),
        ("transforms.ts.type", "io.debezium.connector.postgresql.transforms.timescaledb.TimescaleDb"),
        ("transforms.ts.target.topic.prefix", db.name()),
    ];
    config(db, &[&chain[..], settings].concat())
}

#[test]
fn without_the_extension_the_start_ends() {
    let db = Outbox::create_bare(postgres18(), "create table conditions (id int primary key)");
    let config = with_transform(&db, &[]);
    let fix = "CREATE EXTENSION timescaledb";
    let (_, report) = check(&config, &["--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let mut checks = report["checks"].as_array().unwrap().iter();
    let told = checks.find(|check| check["code"] == "PG048").unwrap();
    assert!(told["outcome"] == "failure" && told["fix"].as_str().unwrap().contains(fix), "{told}");
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    relay.wait_for_stderr(fix);
    assert!(db.slot().is_none());
}

/// A signal names a chunk that has no row in the stream, and that the catalog did not have at the start.
#[test]
fn an_incremental_snapshot_of_a_new_chunk_goes_to_the_hypertable() {
    let tables = "create table _timescaledb_internal.seven (id int primary key, degrees int);
        insert into _timescaledb_internal.seven values (1, 10), (2, 20);
        create table signals (id text primary key, type text, data text)";
    let db = Outbox::create_bare(postgres18(), &format!("{CATALOG}; {tables}"));
    let conditions = topic(&db, "conditions");
    kafka().create_topic(&conditions, 1, &[]);
    let settings = [
        ("table.include.list", r"_timescaledb_internal\..*,public\..*"),
        ("signal.data.collection", "public.signals"),
    ];
    let relay = Relay::start(&with_transform(&db, &settings));
    db.wait_until_streaming();
    let data = json!({"type": "incremental", "data-collections": ["_timescaledb_internal.seven"]});
    db.execute(&format!(
        "insert into _timescaledb_catalog.chunk values (7, 1, '_timescaledb_internal', 'seven');
         insert into signals values ('s', 'execute-snapshot', '{data}')"
    ));
    let records = kafka().read(&conditions, 2);
    assert_eq!(relay.stop(), 0);
    for (record, id) in records.iter().zip(1..) {
        let value: Value = serde_json::from_slice(record.value.as_deref().unwrap()).unwrap();
        assert_eq!((&value["op"], &value["after"]["id"]), (&json!("r"), &json!(id)));
        assert_eq!(value["source"]["table"], "conditions");
        assert_eq!(record.header("__debezium_timescaledb_chunk_table"), "seven");
    }
}
