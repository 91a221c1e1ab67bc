//! EventRouters among other transforms, and more than one: the rows of their tables are routed, those of others are change events.

use serde_json::{Value, json};

use crate::changes::{config, topic};
use crate::check::check;
use crate::printed_commands::Desk;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay};
use crate::support::wait::DEADLINE;

const TABLES: &str = "create table orders (id int primary key, total int);
    create table outbox (id int primary key, aggregatetype text, aggregateid text, type text, payload text)";

/// Returns a configuration in which the EventRouter processes the outbox, ExtractNewRecordState the other table, and
/// routed events get a suffix.
fn routed(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    let pattern = topic(db, "outbox").replace('.', "\\.");
    let chain = [
        ("transforms", "router,unwrap,suffix"),
        ("transforms.router.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.router.predicate", "isOutbox"),
        ("transforms.router.route.topic.replacement", "${routedByValue}"),
        ("transforms.router.table.fields.additional.placement", "type:header:kind"),
        ("transforms.unwrap.type", "io.debezium.transforms.ExtractNewRecordState"),
        ("transforms.suffix.type", "org.apache.kafka.connect.transforms.RegexRouter"),
        ("transforms.suffix.regex", ".*routed"),
        ("transforms.suffix.replacement", "$0-here"),
        ("predicates", "isOutbox"),
        ("predicates.isOutbox.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
        ("predicates.isOutbox.pattern", pattern.as_str()),
    ];
    config(db, &[&chain[..], settings].concat())
}

/// Makes the topics, the one of routed events first.
fn topics(db: &Outbox) -> [String; 2] {
    let topics = [format!("{}.routed-here", db.name()), topic(db, "orders")];
    for topic in &topics {
        kafka().create_topic(topic, 1, &[]);
    }
    topics
}

fn values(topic: &str) -> Vec<Value> {
    let records = kafka().records(topic);
    let value = |bytes: &[u8]| serde_json::from_slice(bytes).unwrap();
    records.iter().map(|record| record.value.as_deref().map_or(Value::Null, value)).collect()
}

#[test]
fn one_table_is_routed_and_the_others_are_change_events() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let [events, orders] = topics(&db);
    let settings = [("snapshot.mode", "initial"), ("outboxd.delivery.guarantee", "tail_dedupe")];
    let insert = |id: i32| {
        let route = format!("{}.routed", db.name());
        db.execute(&format!(
            "begin; insert into orders values ({id}, 7); insert into outbox values ({id}, '{route}', 'k', 'made', 'p{id}');
             update outbox set type = 'x' where id = {id}; delete from outbox where id = {id}; commit"
        ));
    };
    db.execute(&format!("insert into outbox values (0, '{}.routed', 'k', 'made', 'p0')", db.name()));
    for id in 1..=2 {
        let mut relay = Relay::start(&routed(&db, &settings));
        db.wait_until_streaming();
        insert(id);
        db.wait_until_confirmed();
        relay.wait_for_stderr("an outbox row was updated: not sent");
        if id == 1 { relay.kill() } else { assert_eq!(relay.stop(), 0) }
    }
    assert_eq!(values(&events), ["p0", "p1", "p2"]);
    let record = &kafka().records(&events)[1];
    assert_eq!((record.header("id"), record.header("kind")), ("1", "made"));
    assert_eq!(record.key.as_deref(), Some(&br#""k""#[..]));
    assert_eq!(values(&orders), [json!({"id": 1, "total": 7}), json!({"id": 2, "total": 7})]);
}

#[test]
fn the_tables_that_a_router_alone_excludes_are_change_events() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let pattern = topic(&db, "outbox").replace('.', "\\.");
    let events = format!("{}.routed", db.name());
    for topic in [&events, &topic(&db, "orders")] {
        kafka().create_topic(topic, 1, &[]);
    }
    let settings = [
        ("transforms", "router"),
        ("transforms.router.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.router.predicate", "isOutbox"),
        ("transforms.router.route.topic.replacement", "${routedByValue}"),
        ("predicates", "isOutbox"),
        ("predicates.isOutbox.type", "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"),
        ("predicates.isOutbox.pattern", pattern.as_str()),
        ("table.include.list", "public.outbox,public.orders"),
    ];
    let relay = Relay::start(&config(&db, &settings));
    db.wait_until_streaming();
    db.execute(&format!(
        "insert into outbox values (1, '{events}', 'k', 'made', 'p'); delete from outbox; insert into orders values (1, 7)"
    ));
    db.execute("update orders set total = 8; delete from orders");
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(values(&events), ["p"]);
    let told: Vec<_> = values(&topic(&db, "orders")).iter().map(|value| value["op"].clone()).collect();
    assert_eq!(told, [json!("c"), json!("u"), json!("d"), Value::Null]);

    // So are those that an expression may mean, and those of no list at all.
    for list in ["public.o.*", ""] {
        let relay = Relay::start(&config(&db, &[&settings[..], &[("table.include.list", list)]].concat()));
        db.wait_until_streaming();
        db.execute(&format!(
            "insert into outbox values (2, '{events}', 'k', 'made', 'q'); delete from outbox; insert into orders values (2, 7)"
        ));
        db.execute("delete from orders");
        db.wait_until_confirmed();
        assert_eq!(relay.stop(), 0);
    }
    assert_eq!(values(&events), ["p", "q", "q"]);
    assert_eq!(values(&topic(&db, "orders")).len(), 10);
}

/// Events of the outbox go to the topic of the other table.
#[test]
fn a_topic_of_both_is_verified_as_the_refused_command_prints_it() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let shared = topic(&db, "orders");
    kafka().create_topic(&shared, 1, &[]);
    let settings =
        [("table.include.list", "public.outbox,public.orders"), ("transforms", "router,unwrap,suffix")];
    let desk = Desk::of(&routed(&db, &settings));
    let relay = Relay::start(&routed(&db, &settings));
    db.wait_until_streaming();
    db.execute(&format!(
        "insert into outbox values (1, '{shared}', 'k', 'made', 'p'); insert into orders values (1, 7)"
    ));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    let fix = desk.fix("verify --wait 0");
    let lists: Vec<_> =
        fix.split_whitespace().filter(|word| word.starts_with("table.include.list=")).collect();
    assert_eq!(lists.len(), 2, "{fix}");
    for list in lists {
        let (exit, said) = desk.run(&format!("verify --wait 0 -X {}", list.trim_end_matches(',')));
        assert_eq!(exit, 0, "{list}: {said}");
    }
}

#[test]
fn a_row_without_a_route_is_a_dead_letter() {
    let db = Outbox::create_bare(postgres18(), TABLES);
    let [events, _] = topics(&db);
    let dead = format!("{}.dead", db.name());
    kafka().create_topic(&dead, 1, &[]);
    let settings = [
        ("errors.tolerance", "all"),
        ("errors.deadletterqueue.topic.name", dead.as_str()),
        ("errors.deadletterqueue.context.headers.enable", "true"),
    ];
    let relay = Relay::start(&routed(&db, &settings));
    db.wait_until_streaming();
    db.execute(&format!(
        "insert into outbox values (1, null, 'k', 't', 'p'), (2, '{}.routed', 'k', 't', 'q')",
        db.name()
    ));
    db.wait_until_confirmed();
    assert_eq!(relay.stop(), 0);
    assert_eq!(values(&events), ["q"]);
    let [letter] = &kafka().records(&dead)[..] else { panic!("one letter") };
    let row: Value = serde_json::from_str(letter.value()).unwrap();
    assert_eq!((&row["op"], &row["after"]["payload"]), (&json!("c"), &json!("p")));
    assert_eq!(letter.header("__connect.errors.class.name"), "io.debezium.transforms.outbox.EventRouter");
}

#[test]
fn a_table_that_the_router_takes_and_cannot_use_ends_the_start() {
    let db =
        Outbox::create_bare(postgres18(), "create table outbox (id int primary key, aggregatetype text)");
    let mut relay = Relay::start(&routed(&db, &[]));
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    relay.wait_for_stderr("transforms.router.table.field.event.key");
    assert!(db.slot().is_none());
}

pub(crate) const TWO_OUTBOXES: &str = "create table orders (id int primary key, total int);
    create table outbox (id int primary key, aggregatetype text, aggregateid text, type text, payload text);
    create table audit (nr int primary key, subject text, who text, body text)";

/// Returns a configuration in which one EventRouter processes the outbox, and another one with its own options the
/// audit table.
pub(crate) fn two_routers(db: &Outbox, settings: &[(&str, &str)]) -> Config {
    let patterns = ["outbox", "audit"].map(|table| topic(db, table).replace('.', "\\."));
    let [outbox, audit] = patterns.each_ref().map(String::as_str);
    let matches = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches";
    let chain = [
        ("transforms", "router,audit"),
        ("transforms.router.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.router.predicate", "isOutbox"),
        ("transforms.router.route.topic.replacement", "${routedByValue}"),
        ("transforms.audit.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.audit.predicate", "isAudit"),
        ("transforms.audit.route.by.field", "subject"),
        ("transforms.audit.route.topic.replacement", "${routedByValue}"),
        ("transforms.audit.table.field.event.id", "nr"),
        ("transforms.audit.table.field.event.key", "who"),
        ("transforms.audit.table.field.event.payload", "body"),
        ("transforms.audit.table.fields.additional.placement", "who:header:actor"),
        ("transforms.audit.table.op.invalid.behavior", "error"),
        ("predicates", "isOutbox,isAudit"),
        ("predicates.isOutbox.type", matches),
        ("predicates.isOutbox.pattern", outbox),
        ("predicates.isAudit.type", matches),
        ("predicates.isAudit.pattern", audit),
    ];
    config(db, &[&chain[..], settings].concat())
}

/// Makes the topics of both outboxes and of the table.
pub(crate) fn topics_of_two(db: &Outbox) -> [String; 3] {
    let topics = [format!("{}.routed", db.name()), format!("{}.audited", db.name()), topic(db, "orders")];
    for topic in &topics {
        kafka().create_topic(topic, 1, &[]);
    }
    topics
}

#[test]
fn each_of_two_routers_has_its_outbox() {
    for guarantee in ["tail_dedupe", "exactly_once"] {
        let db = Outbox::create_bare(postgres18(), TWO_OUTBOXES);
        let [events, audited, orders] = topics_of_two(&db);
        let dead = format!("{}.dead", db.name());
        kafka().create_topic(&dead, 1, &[]);
        let settings = [
            ("snapshot.mode", "initial"),
            ("outboxd.delivery.guarantee", guarantee),
            ("errors.tolerance", "all"),
            ("errors.deadletterqueue.topic.name", dead.as_str()),
        ];
        let insert = |id: i32| {
            db.execute(&format!(
                "begin; insert into orders values ({id}, 7);
                 insert into outbox values ({id}, '{events}', 'k', 'made', 'p{id}');
                 insert into audit values ({id}, '{audited}', 'ann', 'b{id}'), (-{id}, null, 'ann', 'dead');
                 update audit set who = 'x'; delete from audit; delete from outbox; commit"
            ));
        };
        db.execute(&format!(
            "insert into outbox values (0, '{events}', 'k', 'made', 'p0'); insert into audit values (0, '{audited}', 'ann', 'b0')"
        ));
        for id in 1..=2 {
            let mut relay = Relay::start(&two_routers(&db, &settings));
            db.wait_until_streaming();
            insert(id);
            db.wait_until_confirmed();
            let told = relay.wait_for_stderr("an outbox row was updated: not sent");
            assert!(told.contains("ERROR") && told.contains("public.audit"), "{told}");
            if id == 1 { relay.kill() } else { assert_eq!(relay.stop(), 0) }
        }
        assert_eq!(values(&events), ["p0", "p1", "p2"], "{guarantee}");
        assert_eq!(values(&audited), ["b0", "b1", "b2"], "{guarantee}");
        assert_eq!(kafka().records(&audited)[1].header("actor"), "ann");
        assert_eq!(values(&orders).len(), 2);
        let letters: Vec<_> = values(&dead).iter().map(|letter| letter["after"]["nr"].clone()).collect();
        assert_eq!(letters, ["-1", "-2"]);
    }
}

#[test]
fn each_of_two_outboxes_is_checked() {
    let db = Outbox::create_bare(postgres18(), TWO_OUTBOXES);
    let [events, audited, _] = topics_of_two(&db);
    db.execute(&format!(
        "insert into outbox values (1, '{events}', 'k', 'made', 'p'); insert into audit values (1, '{audited}', 'ann', 'b')"
    ));
    let (_, report) = check(&two_routers(&db, &[]), &["--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let titles = |code: &str| -> Vec<&str> {
        let checks = report["checks"].as_array().unwrap().iter().filter(|check| check["code"] == code);
        checks.map(|check| check["title"].as_str().unwrap()).collect()
    };
    let expected = [
        ("PG022", "public.outbox has every column"),
        ("PG022", "public.audit has every column"),
        ("PG023", "column \"aggregateid\" of table public.outbox"),
        ("PG023", "column \"who\" of table public.audit (table.field.event.key)"),
        ("KA011", events.as_str()),
        ("KA011", audited.as_str()),
    ];
    for (code, part) in expected {
        assert!(titles(code).iter().any(|title| title.contains(part)), "{part}: {report:#}");
    }
    assert!(!titles("PG022").concat().contains("orders"), "{report:#}");
}

#[test]
fn a_table_that_one_of_two_routers_cannot_use_ends_the_start() {
    let db = Outbox::create_bare(postgres18(), &TWO_OUTBOXES.replace("who text, ", ""));
    let config = two_routers(&db, &[]);
    let told = "transforms.audit.table.field.event.key";
    let (_, report) = check(&config, &[]);
    assert!(report.contains(told), "{report}");
    let mut relay = Relay::start(&config);
    assert_eq!(relay.wait_for_exit(DEADLINE), 3);
    relay.wait_for_stderr(told);
    assert!(db.slot().is_none());
}
