//! The usual relay by hand, which reads the outbox as a table and goes wrong, beside the real one, which reads the log. Each
//! pair has the number of its defect in the list that this crate was made from; the consumer's are in `old_ways`.

use std::collections::BTreeSet;
use std::path::Path;

use rdkafka::producer::BaseRecord;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Row};

use crate::relay::RelayThread;
use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::wait::{DEADLINE, eventually};

/// The usual outbox, with a column that the relay marks.
const OUTBOX: &str = "CREATE TABLE outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_type varchar(255) NOT NULL,
    aggregate_id varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz)";
/// Query of the usual relay.
const POLL: &str =
    "SELECT * FROM outbox WHERE processed_at IS NULL ORDER BY created_at LIMIT 100 FOR UPDATE SKIP LOCKED";

/// Opens a shop with the usual outbox.
fn open() -> Shop<'static> {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(OUTBOX);
    shop
}

/// Starts the relay for it. Events go to the topic that is named like the shop and the aggregate's type.
fn start(shop: &Shop<'_>, more: &[(&str, &str)]) -> RelayThread {
    let topic = format!("{}.${{routedByValue}}", shop.name());
    let own = [
        ("table.include.list", "public.outbox"),
        ("transforms.outbox.route.topic.replacement", topic.as_str()),
        ("transforms.outbox.table.fields.additional.placement", "event_type:header"),
    ];
    let relay = RelayThread::start(shop, &own.iter().chain(more).copied().collect::<Vec<_>>());
    eventually(DEADLINE, "the relay streams", || {
        let streaming = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid \
             WHERE database = current_database() AND state IN ('catchup', 'streaming')";
        !shop.query(streaming, &[]).is_empty()
    });
    relay
}

/// Returns an INSERT of an event of this order.
fn insert(order: &str, event: &str) -> String {
    format!(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
         VALUES ('placed', '{order}', '{event}', '{{}}');"
    )
}

/// Returns the records of the relay once there are `count`.
fn sent(shop: &Shop<'_>, count: usize) -> Vec<crate::support::record::Record> {
    kafka().read(&format!("{}.placed", shop.name()), count)
}

async fn connect(shop: &Shop<'_>, drivers: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(shop.url(), NoTls).await.unwrap();
    drivers.spawn(async move { drop(connection.await) });
    client
}

/// D3: `created_at` is the time at which a transaction began, and does not determine the order of its rows or of
/// commits.
#[test]
fn d3_events_are_sent_in_the_order_of_their_commits() {
    let shop = open();
    let relay = start(&shop, &[]);
    shop.block_on(async {
        let mut drivers = JoinSet::new();
        let (one, other) = (connect(&shop, &mut drivers).await, connect(&shop, &mut drivers).await);
        one.batch_execute("BEGIN; SELECT now()").await.unwrap();
        other.batch_execute(&insert("o-1", "Created")).await.unwrap();
        let later = [insert("o-1", "Paid"), insert("o-1", "Shipped"), "COMMIT".to_owned()];
        one.batch_execute(&later.concat()).await.unwrap();
    });
    let event = |row: &Row| row.get::<_, String>("event_type");
    let polled: Vec<String> = shop.query(POLL, &[]).iter().map(event).collect();
    assert_eq!(polled.iter().position(|event| event == "Created"), Some(2), "the old way: {polled:?}");
    let ties = &shop.query("SELECT count(*) - count(DISTINCT created_at) FROM outbox", &[])[0];
    assert_eq!(ties.get::<_, i64>(0), 1, "the old way: nothing tells which of the two was first");

    let sent = sent(&shop, 3);
    let events: Vec<&str> = sent.iter().map(|record| record.header("event_type")).collect();
    assert_eq!(events, ["Created", "Paid", "Shipped"]);
    relay.stop().unwrap();
}

/// D4: the record's key is the event's type, so the events of an order are in several partitions.
#[test]
fn d4_the_events_of_an_aggregate_are_in_one_partition() {
    let shop = open();
    let (old, new) = (format!("{}.old", shop.name()), format!("{}.placed", shop.name()));
    for topic in [&old, &new] {
        kafka().create_topic(topic, 8, &[]);
    }
    let relay = start(&shop, &[]);
    let events: Vec<String> = (0..16).map(|n| format!("Step{n}")).collect();
    shop.execute(&events.iter().map(|event| insert("o-1", event)).collect::<String>());
    for row in shop.query(POLL, &[]) {
        let event: String = row.get("event_type");
        kafka().produce(BaseRecord::to(&old).key(event.as_bytes()).payload(&b"{}"[..]));
    }
    let partitions =
        |topic| kafka().read(topic, 16).iter().map(|record| record.place().1).collect::<BTreeSet<_>>();
    assert!(partitions(&old).len() > 1, "the old way: nobody reads them in their order");

    assert_eq!(partitions(&new).len(), 1);
    relay.stop().unwrap();
}

/// D5: the index on what is not sent holds one value only, so each poll sorts all that is there.
#[test]
fn d5_no_index_is_needed_for_what_is_not_read() {
    let shop = open();
    shop.execute("CREATE INDEX unsent ON outbox (processed_at) WHERE processed_at IS NULL");
    let (role, publication) = (format!("relay_{}", shop.name()), shop.name());
    shop.execute(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; \
         CREATE PUBLICATION {publication} FOR TABLE outbox WITH (publish = 'insert')"
    ));
    // It must not read the table.
    let relay = start(&shop, &[("database.user", &role), ("snapshot.mode", "no_data")]);
    shop.execute(
        "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) \
         SELECT 'placed', 'o-' || n, 'Created', '{}' FROM generate_series(1, 5000) n",
    );
    shop.execute("ANALYZE outbox");
    let plan: Vec<String> =
        shop.query(&format!("EXPLAIN (COSTS OFF) {POLL}"), &[]).iter().map(|row| row.get(0)).collect();
    assert!(plan.iter().any(|line| line.contains("Sort")), "the old way: {plan:?}");

    assert_eq!(sent(&shop, 5000).len(), 5000);
    relay.stop().unwrap();
}

/// D6: `SELECT *` into a struct without a field for each column. The first column that is added stops the relay.
#[test]
fn d6_an_unknown_column_stops_nothing() {
    let shop = open();
    let relay = start(&shop, &[]);
    shop.execute("ALTER TABLE outbox ADD COLUMN tenant text, ADD COLUMN priority integer");
    shop.execute(&insert("o-1", "Created"));
    // What the usual library does with a struct: it refuses columns that have no field.
    let fields =
        ["id", "aggregate_type", "aggregate_id", "event_type", "payload", "created_at", "processed_at"];
    let rows = shop.query(POLL, &[]);
    let unknown = rows[0].columns().iter().find(|column| !fields.contains(&column.name()));
    assert_eq!(unknown.map(|column| column.name()), Some("tenant"), "the old way: an error at each poll");

    assert_eq!(sent(&shop, 1)[0].header("event_type"), "Created");
    relay.stop().unwrap();
}

/// D15: the connector's JSON of a widely read article is from before Debezium 2, which refuses it.
#[test]
fn d15_the_configuration_of_the_article_runs() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/config/cases/article.json");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let config = json["config"].as_object().unwrap();
    let is_missing = |key: &&str| !config.contains_key(*key);
    // The first must be there since 2.0; without the second it looks for a plugin that PostgreSQL does not have; and
    // the column of the key is "aggregateid" unless the third names another one.
    let needed = ["topic.prefix", "plugin.name", "transforms.outbox.table.field.event.key"];
    assert!(needed.iter().all(is_missing), "the old way: Debezium does not start with it");

    let shop = open();
    let relay = RelayThread::start_from(&shop, &file);
    let topic = format!("{}.Created", shop.name());
    shop.execute(&insert("o-1", &topic));
    assert_eq!(kafka().read(&topic, 1)[0].key(), "o-1");
    relay.stop().unwrap();
}
