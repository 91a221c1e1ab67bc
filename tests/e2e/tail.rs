//! `outboxd tail` and `top`: records as they arrive, and the screen.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use outboxd::internals::throwaway::unused_port;
use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Captured, Relay, with};
use crate::support::wait::{DEADLINE, eventually};
use crate::support::watcher::Watcher;

const PAGE: &str = include_str!("../../docs/commands.md");
const INTERRUPTED: i32 = 130;

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
    assert_eq!(Session::of(PAGE, "Records as they arrive").replay(&names), [0]);

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

/// `outboxd top` of these instances, on a terminal of its own. util-linux' `script` makes one.
fn on_a_terminal(ports: &[u16]) -> (std::process::Child, std::process::ChildStdin) {
    let instances = ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let top = format!("stty rows 40 cols 120; exec {} top --http {instances}", env!("CARGO_BIN_EXE_outboxd"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &top, "/dev/null"]);
    command.env("TERM", "xterm").env_remove("OUTBOXD_HTTP");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = command.spawn().expect("script, of util-linux");
    let keys = process.stdin.take().unwrap();
    (process, keys)
}

#[test]
fn top_draws_on_a_terminal_until_q_is_typed() {
    let db = Outbox::create(postgres18());
    let (port, nobody) = (unused_port().unwrap(), unused_port().unwrap());
    let _relay = Relay::start_with(&db.config(kafka()), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.insert(&[Event::new("order", "42", "Made", "{}")]);
    db.wait_until_confirmed();
    let (mut process, mut keys) = on_a_terminal(&[port, nobody]);
    let mut watcher = Watcher::new("outboxd-top-");
    watcher.watch(&process);
    let screen = Captured::start(process.stdout.take().unwrap());
    for words in ["streaming", "no answer", "q leaves", &db.topic("order")] {
        eventually(DEADLINE, &format!("{words} is on the screen: {}", screen.text()), || {
            screen.text().contains(words)
        });
    }
    keys.write_all(b"q").unwrap();
    eventually(DEADLINE, "it has left", || process.try_wait().unwrap().is_some());
    let status = process.wait().unwrap();
    watcher.release();
    assert_eq!(status.code(), Some(0), "{}", screen.text());
}

#[test]
fn what_cannot_be_followed_is_named_with_the_cure() {
    let servers = kafka().bootstrap();
    let missing = ["tail", "--bootstrap-servers", &servers, "--topic", "no.such.topic"];
    for (arguments, exit, told) in [
        (&["tail"][..], 2, "no topic is named"),
        (&missing[..], 3, "there is no topic among: no.such.topic"),
        (&["top", "--http", "1"][..], 2, "outboxd status --http ADDR --json is for scripts"),
    ] {
        let mut process = Relay::command(arguments);
        assert_eq!(process.wait_for_exit(DEADLINE), exit, "{}", process.stderr());
        assert!(process.stderr().contains(told), "{told}: {}", process.stderr());
    }
}
