//! Traces: the row's trace continues in the record, and a collector sees the way between them.

use outboxd::internals::throwaway::unused_port;

use crate::changes;
use crate::support::collector::{Collector, attribute, hex};
use crate::support::http::get_until;
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::{postgres15, postgres18};
use crate::support::relay::{Relay, with};
use crate::support::wait::DEADLINE;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";
const ENABLE: (&str, &str) = ("outboxd.tracing.enable", "true");

fn context() -> String {
    format!("traceparent=00-{TRACE}-{SPAN}-01\ntracestate=congo=t61rcWkgMzE\n")
}

/// Inserts rows of the outbox in one transaction, each with this span context.
fn insert(db: &Outbox, count: i32, context: Option<&str>) {
    let sql = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, tracingspancontext)
               SELECT gen_random_uuid(), 'order', n::text, 'Made', '{}', $2 FROM generate_series(1, $1) n";
    db.query(sql, &[&count, &context]);
}

fn traced_outbox() -> Outbox {
    let db = Outbox::create(postgres18());
    db.execute("ALTER TABLE outbox ADD tracingspancontext text");
    db
}

/// Returns trace, span and flags of a `traceparent`.
fn parts(traceparent: &str) -> [String; 3] {
    let parts: Vec<_> = traceparent.split('-').skip(1).map(str::to_owned).collect();
    parts.try_into().unwrap()
}

#[test]
fn a_row_s_trace_continues_in_its_record_and_what_is_left_is_exported_at_the_stop() {
    let (db, collector) = (traced_outbox(), Collector::start());
    let endpoint = collector.endpoint();
    let environment = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=orders"),
        ("OTEL_SERVICE_NAME", "orders-relay"),
        // Nothing comes before the stop.
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
    ];
    let relay = Relay::start_with(&with(db.config(kafka()), &[ENABLE]), &[], &environment);
    db.wait_until_streaming();
    insert(&db, 1, Some(&context()));
    insert(&db, 1, None);
    let records = kafka().read(&db.topic("order"), 2);
    let record =
        records.iter().find(|record| record.headers.iter().any(|(name, _)| name == "traceparent")).unwrap();
    let [trace, span, flags] = parts(record.header("traceparent"));
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"));
    assert_ne!(span, SPAN);
    assert_eq!(record.header("tracestate"), "congo=t61rcWkgMzE");
    db.wait_until_confirmed();
    assert_eq!(collector.spans(), []);
    assert_eq!(relay.stop(), 0);

    let head = collector.heads().pop().unwrap().to_lowercase();
    assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
    assert!(
        head.contains("content-type: application/x-protobuf\r\n") && head.contains("x-tenant: orders\r\n"),
        "{head}"
    );
    assert_eq!(collector.resources(), [[("service.name".to_owned(), "orders-relay".to_owned())]]);
    assert_eq!(collector.spans().len(), 2, "the row without a context has no span");
    let write = collector.span("db-log-write", TRACE).unwrap();
    let send = collector.span("debezium-read", TRACE).unwrap();
    assert_eq!(hex(&write.parent_span_id), SPAN);
    assert_eq!((&send.parent_span_id, hex(&send.span_id)), (&write.span_id, span));
    assert_eq!([&write.trace_state, &send.trace_state], ["congo=t61rcWkgMzE"; 2]);
    assert!(write.start_time_unix_nano <= send.start_time_unix_nano);
    assert!(send.start_time_unix_nano <= send.end_time_unix_nano);
    assert_eq!(write.end_time_unix_nano, send.end_time_unix_nano);
    let place =
        ["messaging.destination.name", "messaging.destination.partition.id", "messaging.kafka.offset"];
    let expected = [record.topic.clone(), record.partition.to_string(), record.offset.to_string()];
    assert_eq!(place.map(|name| attribute(&send, name).unwrap()), expected);
    assert_eq!(attribute(&write, "db.collection.name").as_deref(), Some("public.outbox"));
}

#[test]
fn change_events_have_spans_and_metrics_count_them() {
    let (db, collector) = (
        Outbox::create_bare(postgres15(), "CREATE TABLE t (id int PRIMARY KEY, tracingspancontext text)"),
        Collector::start(),
    );
    let settings = [
        ENABLE,
        ("transforms", "trace"),
        ("transforms.trace.type", "io.debezium.transforms.tracing.ActivateTracingSpan"),
        ("transforms.trace.tracing.operation.name", "relay"),
    ];
    kafka().create_topic(&changes::topic(&db, "t"), 1, &[]);
    let (port, endpoint) = (unused_port().unwrap(), collector.endpoint());
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
    let relay =
        Relay::start_with(&changes::config(&db, &settings), &["--http", &port.to_string()], &environment);
    db.wait_until_streaming();
    db.query("INSERT INTO t VALUES (1, $1)", &[&context()]);
    db.execute("INSERT INTO t VALUES (2)");
    let records = kafka().read(&changes::topic(&db, "t"), 2);
    get_until(port, "/metrics", "has both records' spans", |page| {
        page.sample("outboxd_spans_exported_total") == Some(4.0)
    });
    for (record, parent) in records.iter().zip([SPAN, ""]) {
        let [trace, span, _] = parts(record.header("traceparent"));
        assert_eq!(trace == TRACE, !parent.is_empty());
        let (write, send) =
            (collector.span("db-log-write", &trace).unwrap(), collector.span("relay", &trace).unwrap());
        assert_eq!((hex(&send.span_id), hex(&write.parent_span_id)), (span, parent.to_owned()));
        assert_eq!(attribute(&write, "db.collection.name").as_deref(), Some("public.t"));
        assert_eq!(attribute(&send, "messaging.kafka.offset"), Some(record.offset.to_string()));
    }
    assert_eq!(relay.stop(), 0);
}

#[test]
fn a_collector_that_hangs_or_is_down_holds_no_event_back() {
    let (silent, down) = (Collector::start_silent(), unused_port().unwrap());
    let hangs = ("queue_full", silent.endpoint());
    let refuses = ("unreachable", format!("http://127.0.0.1:{down}"));
    for (reason, endpoint) in [hangs, refuses] {
        let db = traced_outbox();
        let port = unused_port().unwrap();
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
            ("OTEL_BSP_EXPORT_TIMEOUT", "1"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "20"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
        ];
        // A stop does not wait for the collector either.
        let config = with(db.config(kafka()), &[ENABLE, ("outboxd.shutdown.timeout.ms", "2000")]);
        let relay = Relay::start_with(&config, &["--http", &port.to_string()], &environment);
        db.wait_until_streaming();
        insert(&db, 500, Some(&context()));
        kafka().wait_for_count(&db.topic("order"), 500);
        db.wait_until_confirmed();
        let series = format!("outboxd_spans_lost_total{{reason=\"{reason}\"}}");
        get_until(port, "/metrics", "counts lost spans", |page| page.sample(&series) > Some(0.0));
        assert_eq!(get_until(port, "/readyz", "is ready", |page| page.code == 200).code, 200);
        let said = relay.stop_and_tell();
        // Who is not answered has a request in hand when its time is over.
        assert_eq!(
            said.contains("the collector did not accept them before the shutdown"),
            reason == "queue_full",
            "{said}"
        );
    }
}

#[test]
fn what_a_collector_refuses_is_counted_and_reported() {
    let (db, collector) = (traced_outbox(), Collector::start_refusing("too old"));
    let (port, endpoint) = (unused_port().unwrap(), collector.endpoint());
    let environment = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "10")];
    let config = with(db.config(kafka()), &[ENABLE]);
    let relay = Relay::start_with(&config, &["--http", &port.to_string()], &environment);
    db.wait_until_streaming();
    insert(&db, 1, Some(&context()));
    let refused = "outboxd_spans_lost_total{reason=\"refused\"}";
    get_until(port, "/metrics", "counts the refused span", |page| {
        page.sample(refused) == Some(1.0) && page.sample("outboxd_spans_exported_total") == Some(1.0)
    });
    let said = relay.stop_and_tell();
    assert!(said.contains("the collector refused spans") && said.contains("too old"), "{said}");
}

#[test]
fn a_header_that_is_none_stops_the_start_unless_nothing_is_exported() {
    let db = traced_outbox();
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization:hunter2");
    let config = with(db.config(kafka()), &[ENABLE]);
    let mut refused = Relay::start_with(&config, &[], &[headers]);
    assert_eq!(refused.wait_for_exit(DEADLINE), 2);
    let said = refused.stderr();
    assert!(said.contains("OTEL_EXPORTER_OTLP_HEADERS") && !said.contains("hunter2"), "{said}");
    let relay = Relay::start_with(&config, &[], &[headers, ("OTEL_TRACES_EXPORTER", "none")]);
    db.wait_until_streaming();
    assert_eq!(relay.stop(), 0);
}
