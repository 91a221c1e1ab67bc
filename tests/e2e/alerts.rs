//! The alerts and the dashboard of `docker/`: a real Prometheus reads a real relay, and each alert fires for its fault.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use outboxd::internals::throwaway::{StopMode, unused_port};
use serde_json::Value;

use crate::dead_letters;
use crate::support::http::try_get_as;
use crate::support::kafka::{Kafka, kafka};
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::{self, postgres18};
use crate::support::programs::{reason, spawn};
use crate::support::prometheus::Prometheus;
use crate::support::relay::{Config, Relay, with};
use crate::support::wait::{DEADLINE, eventually};

const RULES: &str = include_str!("../../docker/prometheus/alerts.yaml");
const COMPOSE: &str = include_str!("../../docker/compose.monitoring.yaml");
const DASHBOARD: &str = include_str!("../../docker/grafana/outboxd.json");
const OPERATIONS: &str = include_str!("../../docs/operations.md");

/// Alerts that each of the tests below fires.
const OF_ROWS: [&str; 5] =
    ["OutboxdDeadLetters", "OutboxdRowsPassedOver", "OutboxdRowsNotSent", "OutboxdWarnings", "OutboxdDown"];
const OF_SERVERS: [&str; 8] = [
    "OutboxdPositionNotKept",
    "OutboxdKafkaUnreachable",
    "OutboxdNotReady",
    "OutboxdLag",
    "OutboxdSlotRunway",
    "OutboxdWalRetained",
    "OutboxdSlotInDanger",
    "OutboxdNotStreaming",
];
const OF_SNAPSHOTS: [&str; 2] = ["OutboxdSlotMadeAnew", "OutboxdSnapshotStuck"];

/// Metrics on the dashboard whose series exist only after their first event.
const RARE: [&str; 3] =
    ["outboxd_publish_errors_total", "outboxd_rows_not_sent_total", "outboxd_events_skipped_total"];

fn event() -> Event {
    Event::new("order", "o-1", "OrderCreated", "{}")
}

fn start(config: &Config) -> (Relay, u16) {
    let port = unused_port().unwrap();
    (Relay::start_with(config, &["--http", &port.to_string()], &[]), port)
}

#[test]
fn each_alert_is_made_to_fire_and_says_what_to_do() {
    let after = |key: &'static str| RULES.lines().filter_map(move |line| line.trim().strip_prefix(key));
    let shipped: Vec<_> = after("- alert: ").collect();
    let fired: Vec<_> = [&OF_ROWS[..], &OF_SERVERS, &OF_SNAPSHOTS].concat();
    assert_eq!(shipped.iter().collect::<BTreeSet<_>>(), fired.iter().collect::<BTreeSet<_>>());
    let headings: BTreeSet<_> = OPERATIONS.lines().filter(|line| line.starts_with('#')).map(anchor).collect();
    let books: Vec<_> = after("runbook_url: ").collect();
    assert_eq!(books.len(), shipped.len(), "one for each");
    let descriptions: BTreeSet<_> = after("description: ").collect();
    assert_eq!(descriptions.len(), shipped.len(), "one of its own for each");
    for book in books {
        let anchor = book.strip_prefix("docs/operations.md#").unwrap();
        assert!(headings.contains(anchor), "{book} is no heading");
    }
    for (name, row) in shipped.iter().map(|name| (name, format!("| `{name}` |"))) {
        assert!(OPERATIONS.contains(&row), "{name} is not in docs/operations.md");
    }
}

/// Returns the anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
    text.chars().filter(|c| c.is_alphanumeric() || "-_".contains(*c)).collect()
}

#[test]
fn what_compose_mounts_is_there() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/docker"));
    let mounts = COMPOSE.lines().filter_map(|line| line.trim().strip_prefix("- ./")?.split(':').next());
    let mounts: Vec<_> = mounts.collect();
    assert!(mounts.len() > 3, "{mounts:?}");
    mounts.iter().for_each(|mount| assert!(folder.join(mount).is_file(), "{mount}"));
}

#[test]
fn promtool_takes_the_rules_and_their_tests() {
    let promtool = |arguments: &[&str]| {
        let mut command = Command::new("promtool");
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/docker/prometheus")).args(arguments);
        let output = command.output().unwrap_or_else(|error| panic!("{}", reason(&command, &error)));
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    };
    promtool(&["check", "rules", "--lint-fatal", "alerts.yaml"]);
    promtool(&["test", "rules", "alerts_test.yaml"]);
    promtool(&["check", "config", "prometheus.yaml"]);
}

#[test]
fn rows_that_are_not_sent_make_their_alerts_fire() {
    let db = Outbox::create(postgres18());
    let topic = db.topic("order");
    kafka().create_topic(&topic, 1, &[]);
    db.execute("ALTER TABLE outbox ALTER COLUMN aggregatetype DROP NOT NULL; CREATE TABLE other (n int)");
    db.execute(&format!("CREATE PUBLICATION {} FOR TABLE outbox, other", db.name()));
    let (mut relay, port) = start(&dead_letters::config(&db));
    let prometheus = Prometheus::start(RULES, &[port]);
    db.wait_until_streaming();
    prometheus.wait_for("outboxd_ready == 1 and on () outboxd_dead_letters_total == 0");
    prometheus.wait_for("absent(ALERTS{alertstate=\"firing\"})");

    db.execute("INSERT INTO outbox VALUES (gen_random_uuid(), NULL, 'o-1', 'Lost', '{}')");
    // Kafka takes no such record.
    kafka().alter_topic(&topic, ("max.message.bytes", "2000"));
    db.insert(&[Event::new(
        "order",
        "o-1",
        "OrderCreated",
        &format!("{{\"lines\": \"{}\"}}", "x".repeat(5000)),
    )]);
    db.execute("INSERT INTO other VALUES (1)");
    db.execute("UPDATE outbox SET aggregateid = 'o-2'");
    db.execute("ALTER TABLE outbox RENAME TO orders_outbox");
    db.execute("INSERT INTO orders_outbox VALUES (gen_random_uuid(), 'order', 'o-1', 'Found', '{}')");
    for alert in &OF_ROWS[..4] {
        prometheus.wait_for_alert(alert, port);
    }
    RARE.iter().for_each(|rare| the_dashboard_shows(&prometheus, |expression| expression.contains(rare)));
    relay.kill();
    prometheus.wait_for_alert(OF_ROWS[4], port);
}

#[test]
fn servers_that_fail_make_their_alerts_fire() {
    let settings = [("max_slot_wal_keep_size", "512MB"), ("checkpoint_timeout", "1h")];
    let (mut server, mut kafka) = (postgres::start_with(18, &settings), Kafka::start());
    let db = Outbox::create(&server);
    let (_relay, port) = start(&with(
        db.config(&kafka),
        &[
            ("rdkafka.socket.timeout.ms", "1000"),
            ("outboxd.slot.warn.percent", "10"),
            ("outboxd.slot.alarm.percent", "50"),
        ],
    ));
    let prometheus = Prometheus::start(RULES, &[port]);
    db.wait_until_streaming();
    let insert = || db.insert(&[event()]);
    insert();
    db.wait_until_confirmed();
    prometheus.wait_for("outboxd_ready == 1 and on () outboxd_slot_safe_wal_bytes > 0");
    the_page_is_well_formed(port);
    let is_rare = |expression: &str| RARE.iter().any(|rare| expression.contains(rare));
    the_dashboard_shows(&prometheus, |expression| !is_rare(expression));
    prometheus.wait_for("absent(ALERTS{alertstate=\"firing\"})");

    // The broker takes events, and no position.
    kafka.alter_topic("__outboxd-positions", ("max.message.bytes", "1"));
    insert();
    prometheus.wait_for_alert("OutboxdPositionNotKept", port);
    kafka.alter_topic("__outboxd-positions", ("max.message.bytes", "1048588"));
    db.wait_until_confirmed();

    kafka.pause();
    insert();
    fill(&db, 430);
    prometheus.wait_for_alert("OutboxdWalRetained", port);
    fill(&db, 180);
    for alert in ["OutboxdSlotInDanger", "OutboxdSlotRunway", "OutboxdKafkaUnreachable"] {
        prometheus.wait_for_alert(alert, port);
    }
    prometheus.wait_for_alert("OutboxdNotReady", port);
    prometheus.wait_for_alert("OutboxdLag", port);

    kafka.resume();
    // It was stopped for longer than its own session may last.
    kafka.wait_until_ready();
    // By now outboxd may wait for half a minute before it tries again, and may be late then.
    prometheus.wait_for("outboxd_ready == 1");
    server.stop(StopMode::Immediate, DEADLINE).unwrap();
    prometheus.wait_for_alert("OutboxdNotStreaming", port);
}

/// Writes WAL until the slot has no more than this room left.
fn fill(db: &Outbox, megabytes: i64) {
    db.execute("CREATE TABLE IF NOT EXISTS filler (n int)");
    eventually(DEADLINE, "the WAL is as long as that", || {
        db.execute("INSERT INTO filler VALUES (1)");
        db.query("SELECT pg_switch_wal()", &[]);
        let sql = "SELECT safe_wal_size / 1048576 FROM pg_replication_slots WHERE slot_name = $1";
        db.query(sql, &[&db.name()])[0].get::<_, i64>(0) <= megabytes
    });
}

/// Checks the page with `promtool check metrics`, in the format that it reads.
fn the_page_is_well_formed(port: u16) {
    let page = try_get_as(port, "/metrics", "text/plain;version=0.0.4").unwrap();
    assert!(page.body.contains("# TYPE outboxd_transactions_total counter\n"), "{}", page.body);
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = spawn(&mut command);
    promtool.stdin.take().unwrap().write_all(page.body.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// Waits until Prometheus has something for each expression of the dashboard that is chosen. At least one is.
fn the_dashboard_shows(prometheus: &Prometheus, chosen: impl Fn(&str) -> bool) {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let expressions: Vec<_> = expressions.filter(|expression| chosen(expression)).collect();
    assert!(!expressions.is_empty());
    for expression in expressions {
        let expression = expression.replace("$job", ".+").replace("$instance", ".+");
        prometheus.wait_for(&expression.replace("$__rate_interval", "1m"));
    }
}

#[test]
fn snapshots_make_their_alerts_fire() {
    let (whole, stuck) = (Outbox::create(postgres18()), Outbox::create(postgres18()));
    // The server does not come to the first row.
    stuck.insert(&[event()]);
    let statement = "SELECT * FROM public.outbox WHERE pg_sleep(3600) IS NOT NULL";
    let settings = [
        ("snapshot.select.statement.overrides", "public.outbox"),
        ("snapshot.select.statement.overrides.public.outbox", statement),
    ];
    let (_relay, first) = start(&with(whole.config(kafka()), &[("slot.recovery", "snapshot")]));
    let (_other, second) = start(&with(stuck.config(kafka()), &settings));
    let prometheus = Prometheus::start(RULES, &[first, second]);
    whole.wait_until_streaming();
    whole.insert(&[event()]);
    whole.wait_until_confirmed();
    prometheus.wait_for("outboxd_ready == 1 and on (instance) outboxd_slot_recoveries_total == 0");
    whole.drop_slot_in_use();
    prometheus.wait_for_alert(OF_SNAPSHOTS[0], first);
    prometheus.wait_for_alert(OF_SNAPSHOTS[1], second);
    let others = format!("ALERTS{{alertname=\"{}\", instance!=\"127.0.0.1:{second}\"}}", OF_SNAPSHOTS[1]);
    assert_eq!(prometheus.query(&others), Vec::<Value>::new());
}
