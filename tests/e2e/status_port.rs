//! Information about the relay at its `--http` port.

use outboxd::internals::throwaway::unused_port;

use crate::changes;
use crate::support::http::{get_until, try_get};
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};

#[test]
fn a_relay_that_streams_is_alive_and_ready_and_counts() {
    let db = Outbox::create(postgres18());
    let port = unused_port().unwrap();
    let relay = Relay::start_with(&db.config(kafka()), &["--http", &port.to_string()], &[]);
    let ready = get_until(port, "/readyz", "is ready", |page| page.code == 200);
    assert_eq!(ready.json()["status"], "UP", "{}", ready.body);
    assert_eq!(try_get(port, "/livez").unwrap().code, 200);
    assert_eq!(try_get(port, "/nowhere").unwrap().code, 404);

    let event = |n: u32| Event::new("order", &n.to_string(), "OrderCreated", "{}");
    db.insert(&[event(1), event(2), event(3)]);
    db.insert(&[event(4)]);
    let published = format!("outboxd_events_published_total{{topic=\"{}\"}}", db.topic("order"));
    let page = get_until(port, "/metrics", "counts the events", |page| page.sample(&published) == Some(4.0));
    assert!(page.body.ends_with("# EOF\n"));
    for (series, expected) in [
        ("outboxd_transactions_total", 2.0),
        ("outboxd_wal_changes_total{op=\"insert\"}", 4.0),
        ("outboxd_postgres_connected", 1.0),
        ("outboxd_kafka_connected", 1.0),
        ("outboxd_inflight_events", 0.0),
    ] {
        get_until(port, "/metrics", &format!("{series} {expected}"), |page| {
            page.sample(series) == Some(expected)
        });
    }
    let others = [
        "source_lag_seconds",
        "lag_bytes",
        "commit_to_ack_seconds",
        "lsn",
        "slot_retained_bytes",
        "slot_status",
        "config",
        "build",
        "reconnects",
    ];
    for name in others {
        assert!(page.body.contains(&format!("# HELP outboxd_{name} ")), "{name}: {}", page.body);
    }
    assert_eq!(relay.stop(), 0);
    assert_eq!(try_get(port, "/livez"), None, "the port is closed");
}

#[test]
fn dashboards_made_for_debezium_find_their_series() {
    let db = Outbox::create(postgres18());
    let port = unused_port().unwrap();
    let settings = [("outboxd.metrics.debezium", "true"), ("custom.metric.tags", "team=shop")];
    let _relay = Relay::start_with(&with(db.config(kafka()), &settings), &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.insert(&["1", "2"].map(|key| Event::new("order", key, "OrderCreated", "{}")));
    let series = |name: &str, context: &str| {
        let labels =
            format!("team=\"shop\",plugin=\"postgres\",name=\"{}\",context=\"{context}\"", db.name());
        format!("debezium_metrics_{name}{{{labels}}}")
    };
    for (name, context, expected) in [
        ("TotalNumberOfCreateEventsSeen", "streaming", 2.0),
        ("NumberOfCommittedTransactions", "streaming", 1.0),
        ("Connected", "streaming", 1.0),
        ("MilliSecondsBehindSource", "streaming", 0.0),
        ("CurrentQueueSizeInBytes", "streaming", 0.0),
        ("SnapshotRunning", "snapshot", 0.0),
        ("RemainingTableCount", "snapshot", 0.0),
    ] {
        let series = series(name, context);
        get_until(port, "/metrics", &format!("{series} {expected}"), |page| {
            page.sample(&series) == Some(expected)
        });
    }
}

#[test]
fn unchanged_rows_are_counted_under_both_names() {
    let db = Outbox::create_bare(
        postgres18(),
        "create table t (id int primary key, n int); alter table t replica identity full",
    );
    let port = unused_port().unwrap();
    let settings = [("skip.messages.without.change", "true"), ("outboxd.metrics.debezium", "true")];
    let config = changes::config(&db, &settings);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    db.execute("insert into t values (1, 1); update t set n = 1; update t set n = 2; update t set n = 2");
    for series in [
        "outboxd_rows_not_sent_total{table=\"public.t\",reason=\"unchanged\"} 2".to_owned(),
        format!(
            "debezium_metrics_NumberOfUnchangedEventsSkipped{{plugin=\"postgres\",name=\"{}\",context=\"streaming\"}} 2",
            db.name()
        ),
    ] {
        get_until(port, "/metrics", &series, |page| page.body.lines().any(|line| line == series));
    }
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_broker_that_does_not_answer_is_a_reason_not_to_be_ready() {
    let mut kafka = Kafka::start();
    let db = Outbox::create(postgres15());
    let port = unused_port().unwrap();
    // librdkafka notices a silent broker when a request times out.
    let config = with(db.config(&kafka), &[("rdkafka.socket.timeout.ms", "1000")]);
    let _relay = Relay::start_with(&config, &["--http", &port.to_string()], &[]);
    db.wait_until_streaming();
    let insert = || db.insert(&[Event::new("order", "o-1", "OrderCreated", "{}")]);
    insert();
    kafka.read(&db.topic("order"), 1);
    get_until(port, "/readyz", "is ready", |page| page.code == 200);
    kafka.pause();
    insert();
    let page = get_until(port, "/readyz", "is not ready", |page| page.code == 503);
    assert!(page.body.contains("kafka has been down"), "{}", page.body);
    let seen = try_get(port, "/status").unwrap().json();
    assert_eq!(
        (&seen["state"]["words"], &seen["state"]["level"]),
        (&"waiting for Kafka".into(), &"wrong".into())
    );
    assert!(seen["problems"][0]["fix"].is_string() && seen["lag"]["records"] == 1, "{seen}");
    assert!(try_get(port, "/").unwrap().body.contains("waiting for Kafka"));
    assert_eq!(try_get(port, "/livez").unwrap().code, 200);
    kafka.resume();
    get_until(port, "/readyz", "is ready again", |page| page.code == 200);
    kafka.read(&db.topic("order"), 2);
}
