//! `notification.enabled.channels=http`: notifications are posted as Debezium posts them, and who does not take them holds nothing up.

use outboxd::internals::throwaway::unused_port;
use serde_json::Value;

use crate::support::collector::Collector;
use crate::support::hooks::{Hooks, Post};
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

/// Notifications that Debezium 3.7.0.Final has posted for these tables: a row in one, none in the other, then an
/// incremental snapshot of the first. Without id and timestamp; the connector is called `srv`.
const POSTED: &str = include_str!("../cases/notifications.jsonl");

const TABLES: &str = "create table a (id int primary key, v int); insert into a values (1, 1); \
                      create table signals (id varchar(64) primary key, type varchar(32), data varchar(2048))";

fn config(db: &Outbox, url: &str, settings: &[(&str, &str)]) -> Config {
    let mut config = db.config(kafka());
    config.retain(|key, _| !key.starts_with("transforms") && key != "table.include.list");
    let common = [
        ("signal.data.collection", "public.signals"),
        ("notification.enabled.channels", "http"),
        ("notification.http.url", url),
    ];
    with(with(config, &common), settings)
}

fn ask_for_a_snapshot(db: &Outbox, id: &str) {
    let data = r#"{"data-collections": ["public.a"]}"#;
    db.query("insert into signals values ($1, 'execute-snapshot', $2)", &[&id, &data]);
}

/// Returns the body without the parts that differ each time, which must be there.
fn constant(post: &Post, db: &Outbox) -> Value {
    let value = json(&post.body);
    let (at, id) = (value["timestamp"].as_i64().unwrap(), value["id"].as_str().unwrap());
    assert!(at > 1_700_000_000_000 && !id.is_empty(), "{}", post.body);
    let tail = format!(",\"timestamp\":{at},\"id\":\"{id}\"}}");
    let constant = post.body.strip_suffix(&tail).unwrap();
    json(&format!("{constant}}}").replace(db.name(), "srv"))
}

/// Parses JSON. Debezium has the members of `additionalData` in another order at each start; a test of `crates/change-events/src/signal`
/// covers the other members.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn they_are_posted_as_debezium_posts_them() {
    let (db, hooks) = (Outbox::create_bare(postgres18(), TABLES), Hooks::start(204));
    let url = format!("http://me:hunter2@127.0.0.1:{}/a/b?c=d", hooks.port());
    let relay = Relay::start(&config(&db, &url, &[]));
    db.wait_until_streaming();
    eventually(DEADLINE, "the first snapshot is told", || hooks.posts().len() >= 5);
    ask_for_a_snapshot(&db, "s1");
    let expected: Vec<_> = POSTED.lines().map(json).collect();
    eventually(DEADLINE, "all is told", || hooks.posts().len() >= expected.len());
    let posts = hooks.posts();
    let told: Vec<_> = posts.iter().map(|post| constant(post, &db)).collect();
    assert_eq!(told, expected);
    for post in &posts {
        assert_eq!(post.line, "POST /a/b?c=d HTTP/1.1");
        let headers = [
            "authorization: Basic bWU6aHVudGVyMg==".to_owned(),
            format!("content-length: {}", post.body.len()),
            "content-type: application/json".to_owned(),
            format!("host: 127.0.0.1:{}", hooks.port()),
            format!("user-agent: outboxd/{}", env!("CARGO_PKG_VERSION")),
        ];
        assert_eq!(post.headers, headers);
    }
    let said = relay.stop_and_tell();
    assert!(!said.contains("hunter2") && !said.contains("/a/b"), "{said}");
}

#[test]
fn a_server_that_refuses_is_reported_once_and_counted() {
    let (db, hooks) = (Outbox::create_bare(postgres18(), TABLES), Hooks::start(500));
    let url = format!("http://127.0.0.1:{}/secret", hooks.port());
    let config =
        config(&db, &url, &[("notification.http.retries", "0"), ("incremental.snapshot.chunk.size", "1")]);
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.execute("insert into a select g, g from generate_series(2, 5) g");
    ask_for_a_snapshot(&db, "s1");
    // It does not wait for the receivers of notifications.
    let topic = format!("{}.public.a", db.name());
    kafka().read(&topic, 1 + 4 + 5);
    relay.wait_for_stderr("cannot post a notification");
    let lost = |count: f64| {
        get_until(port, "/metrics", "counts", |page| {
            page.sample("outboxd_notifications_lost_total").is_some_and(|lost| lost >= count)
        })
    };
    lost(9.0);
    hooks.answer(204);
    relay.wait_for_stderr("notifications are posted again");
    let said = relay.stderr();
    assert_eq!(said.matches("cannot post a notification").count(), 1, "{said}");
    assert!(said.contains("the server answers 500") && !said.contains("/secret"), "{said}");
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_server_that_never_answers_holds_up_neither_rows_nor_the_end() {
    let (db, silent) = (Outbox::create_bare(postgres18(), TABLES), Collector::start_silent());
    let relay = Relay::start(&config(&db, &silent.endpoint(), &[("notification.http.timeout.ms", "600000")]));
    db.wait_until_streaming();
    db.execute("insert into a select g, g from generate_series(2, 50) g");
    kafka().read(&format!("{}.public.a", db.name()), 50);
    let said = relay.stop_and_tell();
    assert!(said.contains("the server did not accept them in time"), "{said}");
}
