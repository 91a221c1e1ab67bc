//! Three services, each with an outbox, and the real relay between them.

use clap::Parser as _;
use serde_json::Value;

use crate::process::{Process, arguments};
use crate::relay::RelayThread;
use crate::saga_app;
use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

/// Not a test of its own: the process of the example.
#[test]
fn saga_process() {
    let Some(arguments) = arguments() else { return };
    saga_app::main(saga_app::Arguments::parse_from(arguments));
}

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn orders_are_completed_or_compensated_whatever_is_killed() {
    let shop = Shop::open(postgres18(), kafka());
    let prefix = format!("{}.saga", shop.name());
    for topic in ["order", "payment", "shipping"] {
        kafka().create_topic(&format!("{prefix}.{topic}"), 3, &[]);
    }
    shop.block_on(saga_app::create_tables(&shop.url().parse().unwrap())).unwrap();
    // Ten customers have money for 12 of their 15 orders; of the 30 orders of each item, 23 can be shipped.
    shop.execute(
        "INSERT INTO payments.accounts SELECT 'c' || n, 120 FROM generate_series(0, 9) n;
         INSERT INTO shipping.stock SELECT 'i' || n, 23 FROM generate_series(0, 4) n",
    );
    let topic = format!("{prefix}.${{routedByValue}}");
    let relay = RelayThread::start(
        &shop,
        &[
            ("table.include.list", "orders.outbox,payments.outbox,shipping.outbox"),
            ("transforms.outbox.route.topic.replacement", &topic),
            ("transforms.outbox.table.fields.additional.placement", "event_type:header,headers:header"),
        ],
    );
    shop.execute(&format!(
        "WITH placed AS (INSERT INTO orders.orders
             SELECT 'o' || n, 'c' || n % 10, 'i' || n / 10 % 5, 10 FROM generate_series(0, 149) n RETURNING *)
         INSERT INTO orders.outbox (aggregate_type, aggregate_id, event_type, payload, headers)
         SELECT 'order', id, 'OrderPlaced',
                jsonb_build_object('order', id, 'customer', customer, 'item', item, 'amount', amount),
                jsonb_build_object('traceparent', '{TRACE}')
         FROM placed"
    ));
    let ended = || -> i64 {
        let sql = "SELECT count(*) FROM orders.orders WHERE status IN ('completed', 'cancelled')";
        shop.query(sql, &[])[0].get(0)
    };
    let url = shop.url();
    let bootstrap = kafka().bootstrap();
    let start = || {
        let session = ["-X", "session.timeout.ms=6000"];
        let own = ["--postgres", url, "--kafka", &bootstrap, "--topics", &prefix];
        Process::start("saga::saga_process", own.into_iter().chain(session))
    };
    for count in [1, 60] {
        let saga = start();
        eventually(DEADLINE, "some orders have ended", || ended() >= count);
        saga.kill();
    }
    let saga = start();
    eventually_eq(DEADLINE, &150, ended);
    // When all had ended before, it has only just begun: a signal would be nobody's.
    eventually(DEADLINE, "it has begun", || !saga.log().is_empty());
    saga.stop();

    let sums = "SELECT (SELECT count(*) FROM orders.orders WHERE status = 'completed'),
                       (SELECT sum(balance)::bigint FROM payments.accounts),
                       (SELECT sum(count)::bigint FROM shipping.stock),
                       (SELECT count(*) FROM payments.payments)";
    let row = &shop.query(sums, &[])[0];
    let (completed, balance): (i64, i64) = (row.get(0), row.get(1));
    let (stock, payments): (i64, i64) = (row.get(2), row.get(3));
    assert!(completed > 0 && completed < 120, "{completed} completed");
    assert_eq!((balance, stock, payments), (1200 - 10 * completed, 115 - completed, completed));

    let refunded = "SELECT count(*) FROM payments.outbox WHERE event_type = 'PaymentRefunded'";
    let refunded: i64 = shop.query(refunded, &[])[0].get(0);
    assert!(refunded >= 5, "{refunded} payments were given back");

    let placed = kafka().records(&format!("{prefix}.order"));
    for topic in ["payment", "shipping"] {
        for record in kafka().records(&format!("{prefix}.{topic}")) {
            check_lineage(&placed, &record);
        }
    }
    relay.stop().unwrap();
}

/// Checks that the first event's id and trace go through all.
fn check_lineage(placed: &[Record], record: &Record) {
    let first = placed.iter().find(|first| first.key == record.key).unwrap();
    let headers: Value = serde_json::from_str(record.header("headers")).unwrap();
    assert_eq!(headers["correlation_id"], first.header("id"));
    let parts = |trace: &str| trace.split('-').map(str::to_owned).collect::<Vec<_>>();
    let (trace, first) = (parts(headers["traceparent"].as_str().unwrap()), parts(TRACE));
    assert_eq!((&trace[1], &trace[3]), (&first[1], &first[3]));
    assert_ne!(trace[2], first[2]);
}
