//! `outboxd tail` and `top`: records as they arrive, and the screen.

use std::fs;

use outboxd::internals::throwaway::unused_port;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::Value;

use crate::changes;
use crate::commands::session::Session;
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
use crate::support::terminal::Terminal;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");
const INTERRUPTED: i32 = 130;

#[test]
fn a_relay_that_renames_topics_is_asked_for_them() {
    let db = Outbox::create_bare(postgres18(), "CREATE TABLE a (id int PRIMARY KEY)");
    let topic = format!("renamed.{}", db.name());
    let settings = [
        ("transforms", "rename"),
        ("transforms.rename.type", "org.apache.kafka.connect.transforms.RegexRouter"),
        ("transforms.rename.regex", ".*"),
        ("transforms.rename.replacement", topic.as_str()),
    ];
    let config = changes::config(&db, &settings);
    let folder = Watcher::new("outboxd-tail-");
    let file = folder.folder().join("changes.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let port = unused_port().unwrap();
    let _relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.execute("INSERT INTO a VALUES (7)");
    get_until(port, "/status", "has sent it", |page| page.json()["events"]["sent"] == 1);

    let commands = [&["tail", "--since", "1h", "-n", "1"][..], &["explain", "--key", "{\"id\":7}"]];
    for command in commands {
        let without = [command, &["-c", &file]].concat();
        let mut refused = Relay::command(&without);
        assert_eq!(refused.wait_for_exit(DEADLINE), 2, "{}", refused.stdout());
        assert!(refused.stderr().contains("to fix: ask the running relay"), "{}", refused.stderr());
        let mut asking = Relay::command(&[&without[..], &["--http", &port.to_string()]].concat());
        asking.wait_for_exit(DEADLINE);
        assert!(asking.stdout().contains(&topic), "{}{}", asking.stdout(), asking.stderr());
    }
}

#[test]
fn records_are_shown_as_they_arrive() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    kafka.create_topic(&db.topic("order"), 1, &[]);
    let placement = "transforms.outbox.table.fields.additional.placement";
    let config = with(db.config(kafka), &[(placement, "type:header:eventType")]);
    let folder = Watcher::new("outboxd-tail-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let event = |n: u32, kind: &str| Event::new("order", &n.to_string(), kind, "{}");
    let first = [event(42, "OrderCreated"), event(43, "OrderPaid")];

    let _relay = Relay::start(&config);
    db.wait_until_streaming();
    db.insert(&first);
    db.wait_until_confirmed();
    let names = [
        ("outbox.json", file.clone()),
        ("3dd3e317-ff96-4b63-a58c-2d06bc6f07dc", first[0].id.to_string()),
        ("019e2b6c-7f10-7c3e-9d54-2f1f8f2f7d10", first[1].id.to_string()),
        ("orders.order", db.topic("order")),
    ];
    assert_eq!(Session::of(PAGE, "Print records: outboxd tail").replay(&names), [0]);

    let filters = ["tail", "-c", &file, "--type", "OrderPaid", "--key", "44", "--json"];
    let mut quiet = Relay::command(&filters);
    let mut shown = Relay::command(&[&filters[..], &["--value"]].concat());
    for tail in [&quiet, &shown] {
        tail.wait_for_stderr("following");
    }
    let paid = event(44, "OrderPaid");
    db.insert(&[event(44, "OrderCreated"), event(45, "OrderPaid"), paid.clone()]);
    let lines = [&mut quiet, &mut shown].map(|tail| {
        eventually(DEADLINE, "a record is shown", || tail.stdout().ends_with('\n'));
        tail.interrupt();
        assert_eq!(tail.wait_for_exit(DEADLINE), INTERRUPTED);
        let said = tail.stdout();
        assert_eq!(said.lines().count(), 1, "{said}");
        serde_json::from_str::<Value>(&said).unwrap()
    });
    let [without, with] = &lines;
    assert_eq!(
        (&without["key"], &without["value_bytes"], &without["value"]),
        (&"44".into(), &2.into(), &Value::Null)
    );
    assert_eq!((&with["offset"], &with["value"]), (&4.into(), &"{}".into()), "{with}");
    let headers = with["headers"].as_array().unwrap();
    assert!(headers.contains(&serde_json::json!(["id", paid.id.to_string()])), "{with}");
}

#[test]
fn topics_that_come_later_are_followed() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    let folder = Watcher::new("outboxd-tail-");
    let file = folder.folder().join("outbox.json").display().to_string();
    fs::write(&file, serde_json::to_vec(&db.config(kafka)).unwrap()).unwrap();
    let mut tail = Relay::command(&["tail", "-c", &file, "-n", "3", "--json"]);
    tail.wait_for_stderr("following topics that are made from now on");
    let _relay = Relay::start(&db.config(kafka));
    db.wait_until_streaming();
    let event = |kind: &str| Event::new(kind, "42", "Made", "{}");
    db.insert(&[event("order")]);
    eventually(DEADLINE, "the first topic is followed", || tail.stdout().ends_with('\n'));
    db.insert(&[event("payment"), event("order")]);
    assert_eq!(tail.wait_for_exit(DEADLINE), 0);
    let said = tail.stdout();
    let topics = said.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["topic"].to_string());
    let mut topics: Vec<_> = topics.collect();
    topics.sort();
    let expected = ["order", "order", "payment"].map(|kind| format!("{:?}", db.topic(kind)));
    assert_eq!(topics, expected, "{said}");
}

#[test]
fn top_draws_on_a_terminal_until_q_is_typed() {
    let db = Outbox::create(postgres18());
    let [port, nobody] = [unused_port().unwrap(), unused_port().unwrap()].map(|port| port.to_string());
    let _relay = Relay::start_with(&db.config(kafka()), &["--http", &port], &[]);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "42", "Made", "{}")]);
    db.wait_until_confirmed();
    let mut terminal = Terminal::start(&["top", "--http", &port, &nobody]);
    for words in ["streaming", "no answer", "q leaves", &db.topic("order")] {
        terminal.wait_for(words);
    }
    assert!(!terminal.screen().contains("refused"), "{}", terminal.screen());
    terminal.type_keys("j");
    eventually(DEADLINE, "the other instance is shown whole", || terminal.screen().contains("refused"));
    terminal.type_keys("k");
    eventually(DEADLINE, "the first one again", || terminal.screen().contains(&db.topic("order")));
    terminal.type_keys("q");
    let (exit, screen) = terminal.wait_for_exit();
    assert_eq!(exit, Some(0), "{screen}");
}

#[test]
fn what_cannot_be_followed_is_named_with_the_fix() {
    let servers = kafka().bootstrap();
    let missing = ["tail", "--bootstrap-servers", &servers, "--topic", "no.such.topic"];
    let away = ["tail", "--bootstrap-servers", "127.0.0.1:1", "--topic", "t"];
    for (arguments, exit, told) in [
        (&["tail"][..], 2, "no topic is named"),
        (&away[..], 5, "Kafka at 127.0.0.1:1 cannot be reached"),
        (&["lag", "--http", "1", "--every", "0"][..], 2, "is no time of at least 100ms"),
        (&["config", "show"][..], 2, "no configuration is given"),
        (&missing[..], 3, "there is no topic \"no.such.topic\""),
        (&["top", "--http", "1"][..], 2, "outboxd status --http ADDR --json is for scripts"),
    ] {
        let mut process = Relay::command(arguments);
        assert_eq!(process.wait_for_exit(DEADLINE), exit, "{}", process.stderr());
        assert!(process.stderr().contains(told), "{told}: {}", process.stderr());
    }
}

#[test]
fn what_cannot_be_decoded_is_shown_as_it_is_and_why() {
    let (kafka, db) = (kafka(), Outbox::create(postgres18()));
    let topic = db.topic("order");
    kafka.create_topic(&topic, 1, &[]);
    let headers = OwnedHeaders::new().insert(Header { key: "id", value: Some("7") });
    let record = BaseRecord::to(&topic).key(&b"\0\0\0\0\x01\x02a"[..]).payload(&b"{}"[..]);
    kafka.produce(record.headers(headers));
    let folder = Watcher::new("outboxd-tail-");
    let file = folder.folder().join("outbox.json").display().to_string();
    let avro = ("key.converter", "io.confluent.connect.avro.AvroConverter");
    let nobody = format!("http://127.0.0.1:{}", unused_port().unwrap());
    let url = ("key.converter.schema.registry.url", nobody.as_str());
    let run = |settings: &[(&str, &str)], arguments: &[&str]| {
        fs::write(&file, serde_json::to_vec(&with(db.config(kafka), settings)).unwrap()).unwrap();
        let mut process = Relay::command(&[arguments, &["-c", &file]].concat());
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    };
    // The registry is away: the record is shown all the same, and found by what needs no schema.
    let tail = ["tail", "--since", "1h", "-n", "1", "--topic", &topic];
    for settings in [&[avro, url][..], &[avro, url, ("slot.name", "Not A Name!")]] {
        let (exit, stdout, stderr) = run(settings, &tail);
        assert_eq!(exit, 0, "{stderr}");
        assert!(
            stdout.contains("the key is not decoded: schema 1 is unknown: ")
                && stdout.contains("cannot be reached"),
            "{stdout}"
        );
    }
    let (exit, stdout, _) = run(&[avro, url], &["explain", "7", "--json"]);
    let seen: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((exit, &seen["standing"], &seen["not_read"]), (0, &"arrived".into(), &0.into()), "{seen}");
    let (exit, stdout, _) = run(&[avro, url], &["explain", "42"]);
    assert!(
        exit == 1 && stdout.contains("not read  1 record could not be read: schema 1 is unknown"),
        "{stdout}"
    );
    assert!(
        stdout.contains("! not found, but it may be among the 1 record")
            && !stdout.contains("no dead letter"),
        "{stdout}"
    );
    // The registries of the configuration are wrong.
    let (exit, stdout, stderr) = run(&[avro], &tail);
    assert!(exit == 0 && stdout.contains("id 7"), "{stdout}{stderr}");
    assert!(
        stderr.contains("are not decoded") && stderr.contains("key.converter.schema.registry.url"),
        "{stderr}"
    );
}

/// Its window is closed, and nothing ends it for that (`nohup`).
#[test]
fn top_ends_when_its_terminal_is_gone() {
    let [port, nobody] = [unused_port().unwrap(), unused_port().unwrap()].map(|port| port.to_string());
    let terminal = Terminal::start_behind("trap '' HUP;", &["top", "--http", &port, &nobody]);
    terminal.wait_for("no answer");
    let command = format!("top --http {port} {nobody}");
    let runs = || {
        let folders = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let commands = folders.filter_map(|folder| fs::read(folder.path().join("cmdline")).ok());
        let commands = commands.map(|words| String::from_utf8_lossy(&words).replace('\0', " "));
        commands.filter(|words| words.contains("outboxd") && words.trim_end().ends_with(&command)).count()
    };
    assert!(runs() > 0);
    terminal.hang_up();
    eventually_eq(DEADLINE, &0, runs);
}
