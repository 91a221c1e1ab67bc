//! Change events in Avro: what was seen of Debezium 3.7.0.Final with Apicurio's converter.

use apache_avro::types::Value as Avro;

use crate::changes::{config, topic};
use crate::printed_fixes::{fix_of, setting};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::DEADLINE;

const CONFLUENT: &str = "io.confluent.connect.avro.AvroConverter";

fn avro_values(db: &Outbox) -> Config {
    let settings =
        [("value.converter", CONFLUENT), ("value.converter.schema.registry.url", &registry().url())];
    let mut config = config(db, &settings);
    config.remove("value.converter.schemas.enable");
    config
}

/// Returns the value of the first record of this table.
fn first(db: &Outbox, table: &str) -> Avro {
    let records = kafka().read(&topic(db, table), 1);
    registry().read(records[0].value.as_deref().unwrap()).1
}

/// Returns a field of a record, which may be optional.
fn field(record: &Avro, name: &str) -> Avro {
    let record = match record {
        Avro::Union(_, inner) => inner,
        record => record,
    };
    let Avro::Record(fields) = record else { panic!("{record:?} is no record") };
    let found = fields.iter().find(|(field, _)| field == name);
    found.unwrap_or_else(|| panic!("{record:?} has no field {name}")).1.clone()
}

fn lsn(value: &Avro) -> i64 {
    let Avro::Union(_, lsn) = field(&field(value, "source"), "lsn") else { panic!("lsn is optional") };
    let Avro::Long(lsn) = *lsn else { panic!("{lsn:?} is no number") };
    lsn
}

#[test]
fn a_row_that_waits_for_its_schema_keeps_its_place() {
    let db = Outbox::create_bare(
        postgres18(),
        "create table early (id int primary key); create table late (id int primary key)",
    );
    let relay = Relay::start(&avro_values(&db));
    db.wait_until_streaming();
    // Its row comes with its commit, behind all of the other transaction.
    let open = Session::new(db.address().clone());
    open.execute("begin");
    open.execute("insert into early values (1)");
    db.execute("insert into late values (1)");
    open.execute("commit");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let [early, late] = ["early", "late"].map(|table| lsn(&first(&db, table)));
    assert!(early < late, "{early} {late}");
}

#[test]
fn names_of_fields_become_avros_unasked() {
    let db = Outbox::create_bare(
        postgres18(),
        r#"create table t (id int primary key, "unit-price" int, "1st" int)"#,
    );
    let relay = Relay::start(&avro_values(&db));
    db.wait_until_streaming();
    db.execute("insert into t values (1, 2, 3)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let after = field(&first(&db, "t"), "after");
    assert_eq!(field(&after, "unit_price"), Avro::Union(1, Box::new(Avro::Int(2))));
    assert_eq!(field(&after, "_1st"), Avro::Union(1, Box::new(Avro::Int(3))));
}

/// A prefix that Avro does not allow in names: the registry refuses the schema.
#[test]
fn names_that_avro_does_not_allow_are_sent_after_each_of_the_fixes() {
    for key in ["schema.name.adjustment.mode", "value.converter.scrub.invalid.names"] {
        let db = Outbox::create_bare(postgres18(), "create table t (id int primary key)");
        let prefix = format!("a-{}", db.name());
        let config = with(avro_values(&db), &[("topic.prefix", &prefix)]);
        let mut relay = Relay::start(&config);
        db.wait_until_streaming();
        db.execute("insert into t values (1)");
        assert_eq!(relay.wait_for_exit(DEADLINE), 6, "{}", relay.stderr());
        let fix = fix_of(&relay);
        let relay = Relay::start(&with(config, &[setting(&fix, key)]));
        assert_eq!(kafka().read(&format!("{prefix}.public.t"), 1).len(), 1, "{key}");
        assert_eq!(relay.stop(), 0);
    }
}
