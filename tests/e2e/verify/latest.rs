//! Change events: the last record of each key against its row.

use rdkafka::producer::BaseRecord;
use serde_json::json;

use super::answer::{Answer, produce_again, verify};
use super::{NO, USAGE, YES};
use crate::changes::{config, topic};
use crate::changes_router::{TWO_OUTBOXES, topics_of_two, two_routers};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::record::Record;
use crate::support::registry::registry;
use crate::support::relay::{Config, Relay, with};

const REGISTERED: [&str; 3] = [
    "io.confluent.connect.avro.AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter",
    "io.confluent.connect.protobuf.ProtobufConverter",
];

const THINGS: &str = "create table things (id int primary key, name text, note text)";

/// Runs a relay until it has sent what the statements do.
fn sent(db: &Outbox, config: &Config, statements: &[&str]) {
    let relay = Relay::start(config);
    db.wait_until_streaming();
    statements.iter().for_each(|statement| db.execute(statement));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
}

/// Returns the last record of a key that has a value.
fn last(db: &Outbox, key: &str) -> Record {
    let records = kafka().records(&topic(db, "things"));
    records.into_iter().rev().find(|record| record.key() == key && record.value.is_some()).unwrap()
}

fn found(answer: &Answer) -> Vec<(String, String)> {
    answer.findings()
}

fn expected(findings: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut all: Vec<_> =
        findings.iter().map(|(problem, key)| ((*problem).to_owned(), (*key).to_owned())).collect();
    all.sort();
    all
}

#[test]
fn what_the_relay_sends_is_what_the_tables_have() {
    let with_schemas = ("value.converter.schemas.enable", "true");
    let unwrapped = [
        ("transforms", "unwrap"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.unwrap.add.fields", "op,lsn,table,before.name"),
    ];
    let rewritten =
        [&unwrapped[..], &[("transforms.unwrap.delete.tombstone.handling.mode", "rewrite")]].concat();
    for (server, settings) in [
        (postgres15(), vec![]),
        (postgres18(), vec![with_schemas]),
        (postgres18(), unwrapped.to_vec()),
        (postgres18(), rewritten),
    ] {
        let db = Outbox::create_bare(server, THINGS);
        db.execute("create table loose (name text)");
        db.execute("alter table things alter note set storage external");
        let config = config(&db, &[&settings[..], &[("snapshot.mode", "initial")]].concat());
        db.execute("insert into things select n, 'name ' || n, null from generate_series(1, 20) n");
        let large = "update things set note = repeat('x', 5000) where id = 7";
        sent(
            &db,
            &config,
            &[
                "update things set name = 'new' where id in (2, 3)",
                "delete from things where id = 4",
                "update things set id = 100 where id = 5",
                large,
                "update things set name = 'again' where id = 7",
                "insert into loose values ('a'), ('a'), (null)",
                "update things set name = 'b' where id = 1; delete from things where id = 1; insert into things values (1, 'c', null)",
            ],
        );
        let answer = Answer::of(&config, &["--wait", "0"]);
        assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
        assert_eq!(["rows", "sent", "unavailable", "altered"].map(|of| answer.count(of)), [22, 22, 1, 0]);
        // Records are older than a column that comes later.
        sent(&db, &config, &["alter table things add more int default 5"]);
        let answer = Answer::of(&config, &["--wait", "0"]);
        assert_eq!((answer.exit, answer.count("altered")), (YES, 19), "{:#}", answer.json);
    }
}

#[test]
fn what_is_lost_changed_or_reordered_is_named() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    kafka().create_topic(&topic(&db, "things"), 1, &[]);
    let config = with(config(&db, &[]), &[("outboxd.position.topic", "")]);
    let insert = "insert into things select n, 'name ' || n, null from generate_series(1, 8) n";
    sent(&db, &config, &[insert, "update things set name = 'new' where id = 2"]);
    // These are never sent.
    db.execute("insert into things values (9, 'lost', null)");
    db.execute("update things set name = 'unsent' where id = 3");
    db.execute("delete from things where id = 4");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    sent(&db, &config, &[]);
    let running = Relay::start(&config);
    db.wait_until_streaming();

    produce_again(&last(&db, r#"{"id":5}"#), None);
    let stale =
        kafka().records(&topic(&db, "things")).into_iter().find(|r| r.key() == r#"{"id":2}"#).unwrap();
    // A record that comes behind a later one: its place was never met before.
    let other = stale.value().replace("\"txId\":", "\"txId\":1");
    produce_again(&stale, Some(&other));
    let changed = last(&db, r#"{"id":6}"#);
    produce_again(
        &changed,
        Some(&changed.value().replace("name 6", "name 7").replace("\"op\":\"c\"", "\"op\":\"r\"")),
    );
    let gone = topic(&db, "things");
    kafka().produce(BaseRecord::to(&gone).key(r#"{"id":7}"#.as_bytes()).partition(0));

    let answer = Answer::of(&config, &[]);
    let keys = [2, 3, 5, 6, 7, 9].map(|id| format!("{{\"id\":{id}}}"));
    let [two, three, five, six, seven, nine] = keys.each_ref().map(String::as_str);
    let all = [
        ("out_of_order", two),
        ("changed", two),
        ("changed", three),
        ("not_deleted", ""),
        ("repeated", five),
        ("changed", six),
        ("deleted_in_topic", seven),
        ("missing", nine),
    ];
    assert_eq!((answer.exit, found(&answer)), (NO, expected(&all)), "{:#}", answer.json);
    let finding = |problem: &str| {
        let all = answer.json["findings"].as_array().unwrap();
        all.iter().find(|finding| finding["problem"] == problem).unwrap().clone()
    };
    assert_eq!(finding("changed")["detail"], "different: name");
    assert_eq!(finding("missing")["table"], "public.things");
    let row = db.query("SELECT ctid::text FROM things WHERE id = 9", &[]);
    assert_eq!(finding("missing")["ctid"], row[0].get::<_, &str>(0));
    assert_eq!(finding("not_deleted")["records"][0]["topic"], json!(topic(&db, "things")));
    assert_eq!(running.stop(), 0);
}

/// Returns the settings for keys and values by converters whose schemas are in a registry.
fn registered(class: &str) -> Vec<(String, String)> {
    let sides = ["key.converter", "value.converter"];
    let of_side = |side: &str| {
        [(side.to_owned(), class.to_owned()), (format!("{side}.schema.registry.url"), registry().url())]
    };
    sides.into_iter().flat_map(of_side).collect()
}

#[test]
fn what_a_registry_has_the_schemas_of_is_read_back() {
    for class in REGISTERED {
        let db = Outbox::create_bare(postgres18(), THINGS);
        kafka().create_topic(&topic(&db, "things"), 1, &[]);
        let settings = registered(class);
        let settings: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let config = with(config(&db, &settings), &[("outboxd.position.topic", "")]);
        let insert = "insert into things select n, 'name ' || n, null from generate_series(1, 8) n";
        let update = "update things set name = 'new' where id in (2, 3); delete from things where id = 4";
        sent(&db, &config, &[insert, update]);
        let answer = Answer::of(&config, &["--wait", "0"]);
        assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{class}: {:#}", answer.json);
        // The schema of what comes later is another one.
        let later = ["alter table things add more int default 5", "insert into things values (9, 'later')"];
        sent(&db, &config, &later);
        let answer = Answer::of(&config, &["--wait", "0"]);
        assert_eq!((answer.exit, answer.count("altered")), (YES, 7), "{class}: {:#}", answer.json);

        db.execute("insert into things values (10, 'lost')");
        db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
        // The value of the ninth row under the key of the first.
        let records = kafka().records(&topic(&db, "things"));
        let (first, last) = (&records[0], records.last().unwrap());
        let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().unwrap();
        let (key, value) = (bytes(&first.key), bytes(&last.value));
        kafka()
            .produce(BaseRecord::to(&first.topic).key(key.as_slice()).payload(value.as_slice()).partition(0));
        // An unknown schema, under the key of the fifth.
        let key = bytes(&records[4].key);
        kafka().produce(
            BaseRecord::to(&first.topic)
                .key(key.as_slice())
                .payload(b"\0\xFF\xFF\xFF\xFFx".as_slice())
                .partition(0),
        );
        sent(&db, &config, &[]);
        let _running = Relay::start(&config);
        db.wait_until_streaming();
        let answer = Answer::of(&config, &[]);
        let [one, five, ten] = [1, 5, 10].map(|id| format!("{{\"id\":{id}}}"));
        let all = [("changed", one.as_str()), ("changed", five.as_str()), ("missing", ten.as_str())];
        assert_eq!((answer.exit, found(&answer)), (NO, expected(&all)), "{class}: {:#}", answer.json);
        let details: Vec<_> =
            answer.json["findings"].as_array().unwrap().iter().map(|f| f["detail"].clone()).collect();
        assert!(details.contains(&json!("different: name, id")), "{details:?}");
    }
}

#[test]
fn a_table_that_is_truncated_has_sent_a_record_of_it() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    let config = config(&db, &[("skipped.operations", "none")]);
    sent(
        &db,
        &config,
        &[
            "insert into things values (1, 'a', null), (2, 'b', null)",
            "truncate things",
            "insert into things values (2, 'c', null)",
        ],
    );
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
}

#[test]
fn a_row_whose_record_says_that_it_is_gone_is_not_skipped() {
    let db =
        Outbox::create_bare(postgres18(), "create table things (id int primary key, \"__deleted\" text)");
    let unwrapped = [
        ("transforms", "unwrap"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
    ];
    let config = config(&db, &unwrapped);
    sent(&db, &config, &["insert into things values (1, 'false')"]);
    let answer = Answer::of(&config, &[]);
    assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
    db.execute("insert into things values (2, 'true')");
    let (exit, _, stderr) = verify(&config, &["--wait", "0"]);
    assert!(exit == USAGE && stderr.contains("a record that contains no row"), "{exit}: {stderr}");
}

/// Returns a configuration in which an EventRouter processes the outbox, and ExtractNewRecordState the other table.
fn routed(db: &Outbox) -> Config {
    let pattern = topic(db, "outbox").replace('.', "\\.");
    let chain = [
        ("transforms", "router,unwrap"),
        ("transforms.router.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.router.predicate", "isOutbox"),
        ("transforms.router.route.topic.replacement", "${routedByValue}"),
        ("transforms.router.table.field.event.timestamp", "at"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.unwrap.add.fields", "op,lsn"),
        ("predicates", "isOutbox"),
        ("predicates.isOutbox.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
        ("predicates.isOutbox.pattern", pattern.as_str()),
        ("outboxd.identity.headers", "true"),
        ("outboxd.delivery.guarantee", "tail_dedupe"),
    ];
    config(db, &chain)
}

#[test]
fn an_outbox_among_the_tables_is_compared_by_its_ids() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    db.execute(
        "create table outbox (id int primary key, aggregatetype text, aggregateid text, type text, payload text, at timestamp)",
    );
    let config = with(routed(&db), &[("outboxd.position.topic", "")]);
    let events = format!("{}.events", db.name());
    kafka().create_topic(&events, 1, &[]);
    let insert = |ids: &str| {
        format!(
            "insert into outbox select n, '{events}', 'k', 't', 'p' || n, '2026-01-31' from generate_series({ids}) n;
             insert into things select n, 'name ' || n, null from generate_series({ids}) n"
        )
    };
    sent(
        &db,
        &config,
        &[&insert("1, 5"), "update things set name = 'new' where id = 2", "delete from outbox where id = 1"],
    );
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
    let of_outbox = |answer: &Answer, of: &str| answer.json["outbox"]["counts"][of].as_u64();
    assert_eq!((answer.count("rows"), of_outbox(&answer, "rows")), (5, Some(4)), "{:#}", answer.json);
    assert_eq!((answer.count("sent"), of_outbox(&answer, "sent")), (5, Some(4)), "{:#}", answer.json);
    assert_eq!(of_outbox(&answer, "without_row"), Some(1));
    assert_eq!(answer.json["outbox"]["order"]["checked"], json!(true), "{:#}", answer.json);

    // These are never sent.
    db.execute(&insert("6, 6"));
    db.execute("update outbox set payload = 'other' where id = 3");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let four = kafka().records(&events).into_iter().find(|record| record.header("id") == "4").unwrap();
    produce_again(&four, None);
    let answer = Answer::of(&config, &[]);
    let all = [("missing", "{\"id\":6}"), ("missing", "6"), ("changed", "3"), ("repeated", "4")];
    assert_eq!((answer.exit, found(&answer)), (NO, expected(&all)), "{:#}", answer.json);
    let (_, stdout, _) = verify(&config, &[]);
    let line = format!("missing: id 6, table public.outbox, ctid (0,6), topic {events}");
    assert!(
        stdout.contains(&line) && stdout.contains("outbox (rows that the EventRouter takes):"),
        "{stdout}"
    );
    assert_eq!(running.stop(), 0);
}

#[test]
fn outboxes_with_routers_of_their_own_are_compared() {
    let db = Outbox::create_bare(postgres18(), TWO_OUTBOXES);
    let [events, audited, _] = topics_of_two(&db);
    let settings = [("outboxd.delivery.guarantee", "tail_dedupe"), ("outboxd.position.topic", "")];
    let config = two_routers(&db, &settings);
    let insert = |id: i32| {
        format!(
            "insert into orders values ({id}, 7); insert into outbox values ({id}, '{events}', 'k', 't', 'p');
             insert into audit values ({id}, '{audited}', 'ann', 'b')"
        )
    };
    sent(&db, &config, &[&insert(1), &insert(2)]);
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
    assert_eq!(answer.count("rows"), 2, "{:#}", answer.json);
    assert_eq!(answer.json["outbox"]["counts"]["rows"], 4, "{:#}", answer.json);

    // These are never sent.
    db.execute(
        "update audit set body = 'other' where nr = 1; update outbox set payload = 'other' where id = 2",
    );
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!(found(&answer), expected(&[("changed", "1"), ("changed", "2")]), "{:#}", answer.json);
}

#[test]
fn without_updates_the_rest_is_compared() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    let config = with(config(&db, &[("skipped.operations", "u,t")]), &[("outboxd.position.topic", "")]);
    let insert = "insert into things select n, 'name ' || n, null from generate_series(1, 5) n";
    let update = "update things set name = 'new' where id in (2, 3)";
    sent(&db, &config, &[insert, update, "delete from things where id in (3, 4)"]);
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!((answer.exit, found(&answer)), (YES, vec![]), "{:#}", answer.json);
    assert_eq!(["rows", "sent", "not_compared"].map(|of| answer.count(of)), [3, 3, 1], "{:#}", answer.json);
    let notes = answer.json["notes"].to_string();
    assert!(notes.contains("skipped.operations has u"), "{notes}");
    // These are never sent.
    db.execute("insert into things values (6, 'lost', null); delete from things where id = 1");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let answer = Answer::of(&config, &[]);
    let all = [("missing", "{\"id\":6}"), ("not_deleted", "")];
    assert_eq!((answer.exit, found(&answer)), (NO, expected(&all)), "{:#}", answer.json);
    assert_eq!(running.stop(), 0);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    let hoist = [
        ("transforms", "wrap"),
        ("transforms.wrap.type", "org.apache.kafka.connect.transforms.HoistField$Value"),
        ("transforms.wrap.field", "f"),
    ];
    let filter = [
        ("transforms", "only"),
        ("transforms.only.type", "outboxd.transforms.FilterByExpression"),
        ("transforms.only.condition", "value.op == 'u'"),
    ];
    let string = [("value.converter", "org.apache.kafka.connect.storage.StringConverter")];
    let cases: [(&[(&str, &str)], &str); 3] = [
        (&hoist, "wrap (org.apache.kafka.connect.transforms.HoistField$Value)"),
        (&filter, "only (outboxd.transforms.FilterByExpression)"),
        (&string, "make no values with fields"),
    ];
    let refused = |settings: &[(&str, &str)], arguments: &[&str], told: &str| {
        let (exit, _, stderr) = verify(&config(&db, settings), arguments);
        assert!(exit == USAGE && stderr.contains(told), "{exit}: {stderr}");
    };
    for (settings, told) in cases {
        refused(settings, &[], told);
    }
    refused(&[], &["--since", "1 hour"], "--since is for outbox tables");
}

/// The column was added after the record was made, and its update is lost.
#[test]
fn a_lost_update_of_a_later_column_is_named() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    kafka().create_topic(&topic(&db, "things"), 1, &[]);
    let config = with(config(&db, &[]), &[("outboxd.position.topic", "")]);
    sent(&db, &config, &["insert into things select n, 'name', null from generate_series(1, 4) n"]);
    let later = "alter table things add price int, add at timestamptz default '2026-01-01 00:00:00+00', add tags text[] default '{a,\"b,c\"}'";
    db.execute(later);
    let answer = Answer::of(&config, &["--wait", "0"]);
    assert_eq!((answer.exit, answer.count("altered")), (YES, 4), "{:#}", answer.json);
    db.execute("update things set price = 42 where id = 1; update things set tags = '{b}' where id = 2");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    sent(&db, &config, &["update things set price = 7 where id = 3"]);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let answer = Answer::of(&config, &[]);
    let [one, two] = [1, 2].map(|id| format!("{{\"id\":{id}}}"));
    let all = [("changed", one.as_str()), ("changed", two.as_str())];
    assert_eq!((answer.exit, found(&answer)), (NO, expected(&all)), "{:#}", answer.json);
    assert_eq!(answer.count("altered"), 1, "{:#}", answer.json);
    assert_eq!(running.stop(), 0);
}

#[test]
fn the_worst_is_listed_first() {
    let db = Outbox::create_bare(postgres18(), THINGS);
    kafka().create_topic(&topic(&db, "things"), 1, &[]);
    let config = with(config(&db, &[]), &[("outboxd.position.topic", "")]);
    sent(&db, &config, &["insert into things select n, 'name', null from generate_series(1, 150) n"]);
    db.execute("update things set name = 'lost'; insert into things values (151, 'lost', null)");
    db.query("SELECT pg_replication_slot_advance($1, pg_current_wal_lsn())", &[&db.name()]);
    let running = Relay::start(&config);
    db.wait_until_streaming();
    let (exit, stdout, _) = verify(&config, &[]);
    let lines: Vec<_> = stdout.lines().take(101).collect();
    assert!(exit == NO && lines[0].starts_with("missing: key {\"id\":151}"), "{stdout}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("changed: ")).count(), 99, "{stdout}");
    assert_eq!(lines[100], "and 51 more: --json lists all");
    assert_eq!(running.stop(), 0);
}
