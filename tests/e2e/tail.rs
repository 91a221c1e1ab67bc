//! `outboxd tail` and `top`: records as they arrive, and the screen.

use std::fs;

use serde_json::Value;

use crate::commands::session::Session;
use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::postgres18;
use crate::support::relay::{Relay, with};
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
