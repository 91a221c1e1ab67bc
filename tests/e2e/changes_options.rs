//! Options of change events that reach into both servers: identities, names, what a snapshot reads.

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, eventually};

const TWO: &str =
    "create table a (id int primary key, v text); create table b (id int primary key, v text not null);
                   create unique index b_v on b (v);";

fn streaming(db: &Outbox, settings: &[(&str, &str)]) -> Relay {
    let relay = Relay::start(&config(db, settings));
    db.wait_until_streaming();
    relay
}

/// Returns operation and key of each event in a topic.
fn events(topic: &str) -> Vec<(String, Value)> {
    let json = |bytes: &str| serde_json::from_str::<Value>(bytes).unwrap();
    let records = kafka().records(topic);
    let events = records.iter().filter(|record| record.value.is_some());
    let key = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    events
        .map(|record| {
            let op = json(record.value())["op"].as_str().unwrap().to_owned();
            (op, record.key.as_deref().map_or(Value::Null, key))
        })
        .collect()
}

#[test]
fn replica_identities_are_set_before_the_stream_begins() {
    let db = Outbox::create_bare(postgres18(), TWO);
    let values = [("replica.identity.autoset.values", "public.a:FULL,public.b:INDEX B_V")];
    let relay = streaming(&db, &values);
    let identities = "select c.relname::text || c.relreplident::text from pg_class c where relname in ('a', 'b') order by 1";
    let identities: Vec<String> = db.query(identities, &[]).iter().map(|row| row.get(0)).collect();
    assert_eq!(identities, ["af", "bi"]);
    assert_eq!(relay.stop(), 0);
}

/// As Debezium: the tables are streamed with the identities that they have.
#[test]
fn an_identity_that_cannot_be_set_is_an_error_in_the_log() {
    let db = Outbox::create_bare(postgres18(), TWO);
    let role = format!("{}_reader", db.name());
    db.execute(&format!(
        "create role {role} login replication password 'x'; grant select on a, b to {role}; create publication {} for table a, b",
        db.name()
    ));
    let settings = [
        ("replica.identity.autoset.values", "public.a:FULL,public.b:FULL,public.[b]:DEFAULT"),
        ("database.user", role.as_str()),
        ("database.password", "x"),
    ];
    let relay = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    let said = relay.stderr();
    for words in [
        "as the owner of the table: ALTER TABLE",
        "two entries of replica.identity.autoset.values match table public.b",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    db.execute("insert into a values (1)");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(kafka().records(&topic(&db, "a")).len(), 1);
    // The statement of the message.
    db.execute("ALTER TABLE public.a REPLICA IDENTITY FULL");

    db.execute(&format!("drop owned by {role}; drop role {role}"));
}

/// As when the publication is that of an outbox.
#[test]
fn operations_that_are_not_published_are_reported() {
    let db = Outbox::create_bare(postgres18(), TWO);
    db.execute(&format!("create publication {} for all tables with (publish = 'insert, delete')", db.name()));
    let relay = streaming(&db, &[("publication.autocreate.mode", "disabled")]);
    let warning = "the publication does not publish these operations: they produce no events";
    let line: Value = serde_json::from_str(&relay.wait_for_stderr(warning)).unwrap();
    relay.wait_for_stderr("\"operations\":\"update\"");
    assert_eq!(relay.stop(), 0);
    db.execute(line["fix"].as_str().unwrap());
    let relay = streaming(&db, &[("publication.autocreate.mode", "disabled")]);
    assert!(!relay.stop_and_tell().contains(warning));
    db.execute(&format!("alter publication {} set (publish = 'update')", db.name()));
    let mut relay = Relay::start(&config(&db, &[("publication.autocreate.mode", "disabled")]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    assert!(relay.stderr().contains("SET (publish = 'insert, update, delete')"), "{}", relay.stderr());
}

#[test]
fn more_tables_than_a_limit_are_reported_or_refused() {
    let db = Outbox::create_bare(
        postgres18(),
        "create table a (id int primary key); create table b (id int primary key)",
    );
    let relay = streaming(&db, &[("guardrail.collections.max", "1")]);
    relay.wait_for_stderr("2 tables are captured, and guardrail.collections.max=1");
    assert_eq!(relay.stop(), 0);
    let fails = [("guardrail.collections.max", "1"), ("guardrail.collections.limit.action", "fail")];
    let mut relay = Relay::start(&config(&db, &fails));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3, "{}", relay.stderr());
    assert!(relay.stderr().contains("name fewer tables in table.include.list"), "{}", relay.stderr());
    assert!(relay.stderr().contains("guardrail.collections.limit.action=warn"), "{}", relay.stderr());
    let warns = [("guardrail.collections.max", "1"), ("guardrail.collections.limit.action", "warn")];
    assert_eq!(streaming(&db, &warns).stop(), 0);
    let relay =
        streaming(&db, &[("guardrail.collections.max", "2"), ("guardrail.collections.limit.action", "fail")]);
    assert_eq!(relay.stop(), 0);
}

#[test]
fn tables_share_a_topic_and_a_snapshot_leaves_tables_out() {
    let db = Outbox::create_bare(postgres18(), TWO);
    db.execute("insert into a values (1, 'x'); insert into b values (1, 'y')");
    let shared = format!("{}.all", db.name());
    kafka().create_topic(&shared, 1, &[]);
    let settings = [
        ("snapshot.mode", "configuration_based"),
        ("snapshot.mode.configuration.based.snapshot.data", "true"),
        ("snapshot.mode.configuration.based.start.stream", "true"),
        ("snapshot.include.collection.list", "public.a"),
        ("topic.naming.strategy", "io.debezium.schema.SchemaRegexTopicNamingStrategy"),
        ("topic.regex", "(.*)\\.public\\..*"),
        ("topic.replacement", "$1.all"),
        ("topic.key.field.name", "from"),
        ("topic.key.field.regex", ".*\\.(.*)"),
        ("topic.key.field.replacement", "$1"),
    ];
    let relay = streaming(&db, &settings);
    db.execute("insert into b values (2, 'z')");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let expected = [("r", json!({"id": 1, "from": "a"})), ("c", json!({"id": 2, "from": "b"}))];
    assert_eq!(events(&shared), expected.map(|(op, key)| (op.to_owned(), key)));
}

#[test]
fn a_snapshot_alone_sends_roots_and_partitions_and_waits_for_the_stop() {
    let db = Outbox::create_bare(
        postgres18(),
        "create table m (id int primary key) partition by range (id); create table m_1 partition of m default",
    );
    db.execute("insert into m values (1)");
    for table in ["m", "m_1"] {
        kafka().create_topic(&topic(&db, table), 1, &[]);
    }
    let mut relay = Relay::start(&config(&db, &[("snapshot.mode", "initial_only")]));
    relay.wait_for_stderr("nothing follows");
    for table in ["m", "m_1"] {
        assert_eq!(events(&topic(&db, table)), [("r".to_owned(), json!({"id": 1}))], "{table}");
    }
    assert!(relay.is_running() && db.slot().is_none());
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_row_that_is_gone_is_sent_as_it_came_unless_that_is_an_error() {
    let db = Outbox::create_bare(postgres18(), "create table a (id int primary key, v text, n int)");
    db.execute("alter table a alter v set storage external");
    // The spelling without `post.processors.` before it.
    let settings = [
        ("post.processors", "again"),
        ("again.type", "io.debezium.processors.reselect.ReselectColumnsPostProcessor"),
        ("again.reselect.null.values", "false"),
    ];
    let relay = streaming(&db, &settings);
    db.execute("insert into a values (1, repeat('v', 3000), 1)");
    db.execute("update a set n = 2");
    db.wait_until_confirmed();
    db.execute("update a set n = 3; delete from a");
    db.wait_until_confirmed();
    relay.wait_for_stderr("cannot reselect columns of a row");
    assert_eq!(relay.stop(), 0);
    let after =
        |record: &Record| serde_json::from_str::<Value>(record.value()).unwrap()["after"]["v"].clone();
    let records = kafka().records(&topic(&db, "a"));
    let values: Vec<_> = records.iter().filter(|record| record.value.is_some()).map(after).collect();
    let lengths: Vec<_> = values.iter().map(|value| value.as_str().map(str::len)).collect();
    assert_eq!(lengths, [Some(3000), Some(3000), Some("__debezium_unavailable_value".len()), None]);

    // By a key with a null no row is found.
    let by_null = [
        ("post.processors", "again"),
        ("again.type", "io.debezium.processors.reselect.ReselectColumnsPostProcessor"),
        ("again.reselect.use.event.key", "true"),
        ("message.key.columns", "public.a:n"),
    ];
    let relay = Relay::start(&config(&db, &by_null));
    db.wait_until_streaming();
    db.execute("insert into a values (2, 'v', null)");
    db.wait_until_confirmed();
    relay.wait_for_stderr("no row is found by its key");
    assert_eq!(relay.stop(), 0);

    let fails = [&settings[..], &[("again.reselect.error.handling.mode", "fail")]].concat();
    db.execute("insert into a values (1, repeat('v', 3000), 1)");
    db.execute("update a set n = 3; delete from a");
    let mut relay = Relay::start(&config(&db, &fails));
    assert_eq!(relay.wait_for_exit(DEADLINE), 6);
    relay.wait_for_stderr("reselect.error.handling.mode=warn");
    let warns = [&settings[..], &[("again.reselect.error.handling.mode", "warn")]].concat();
    let relay = Relay::start(&config(&db, &warns));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

#[test]
fn other_post_processors_are_refused_by_name() {
    let db = Outbox::create_bare(postgres18(), TWO);
    let cases: [(&[(&str, &str)], &str); 3] = [
        (
            &[("post.processors", "p"), ("post.processors.p.type", "com.example.Mine")],
            "post.processors.p.type",
        ),
        (&[("post.processors", "p")], "post.processors.p.type"),
        (
            &[
                ("post.processors", "p"),
                ("p.type", "io.debezium.processors.reselect.ReselectColumnsPostProcessor"),
                ("p.reselect.null.value", "true"),
            ],
            "did you mean p.reselect.null.values?",
        ),
    ];
    for (settings, told) in cases {
        let mut relay = Relay::start(&config(&db, settings));
        assert_eq!(relay.wait_for_exit(DEADLINE), 2);
        relay.wait_for_stderr(told);
    }
}

#[test]
fn a_topic_that_kafka_does_not_allow_is_the_fault_of_its_row() {
    let db = Outbox::create_bare(postgres18(), "create table a (id int primary key, place text)");
    let good = format!("{}.good", db.name());
    kafka().create_topic(&good, 1, &[]);
    let settings = [
        ("transforms", "unwrap"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.unwrap.route.by.field", "place"),
        ("errors.tolerance", "all"),
    ];
    let relay = streaming(&db, &settings);
    db.execute(&format!("insert into a values (1, '{good}'), (2, 'not a topic!'), (3, '{good}')"));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let ids: Vec<_> = kafka().records(&good).iter().map(|record| record.key().to_owned()).collect();
    assert_eq!(ids, [r#"{"id":1}"#, r#"{"id":3}"#]);
    db.execute("insert into a values (4, 'not a topic!')");
    let mut relay = Relay::start(&config(&db, settings.get(..3).unwrap()));
    assert_eq!(relay.wait_for_exit(DEADLINE), 6);
    relay.wait_for_stderr("a topic that Kafka does not allow");
}

#[test]
fn the_slots_xmin_is_reported_and_asked_for_again() {
    let db = Outbox::create_bare(postgres18(), TWO);
    kafka().create_topic(&topic(&db, "a"), 1, &[]);
    let relay = streaming(&db, &[("xmin.fetch.interval.ms", "50")]);
    let slots = "select catalog_xmin::text::bigint from pg_replication_slots where slot_name = $1";
    let of_slot = || -> i64 { db.query(slots, &[&db.name()])[0].get(0) };
    let told = || -> Vec<i64> {
        let records = kafka().records(&topic(&db, "a"));
        let source =
            |record: &Record| serde_json::from_str::<Value>(record.value()).unwrap()["source"].clone();
        records.iter().map(|record| source(record)["xmin"].as_i64().unwrap()).collect()
    };
    db.execute("insert into a values (1, 'x')");
    db.wait_until_confirmed();
    assert!((1..=of_slot()).contains(&told()[0]), "{:?}", told());
    // What no running transaction needs any more the slot lets go, once the stream is past the server's word on them.
    let mut id = 1;
    eventually(DEADLINE, "another xmin", || {
        id += 1;
        db.execute(&format!("insert into a values ({id}, 'x')"));
        db.execute("select pg_log_standby_snapshot()");
        db.wait_until_confirmed();
        told().last() > told().first()
    });
    assert_eq!(relay.stop(), 0);
}
