//! The usual consumer by hand, which goes wrong, beside this one, which does not. Each pair has the number of its defect in
//! the list that this crate was made from; the pairs about locks, records and HTTP are in `tests/keys`.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;
use crate::support::record::Record;
use crate::support::wait::{DEADLINE, eventually};

/// The usual table: it does not contain the service that has handled the event.
const REMEMBERED: &str =
    "CREATE TABLE remembered (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())";
const LOOK: &str = "SELECT FROM remembered WHERE id = $1";
const REMEMBER: &str = "INSERT INTO remembered VALUES ($1)";

/// Runs the usual consumer: it skips records that it cannot read, looks for the id, applies the event, and remembers
/// the id. Then all of the records are committed.
fn by_hand(shop: &Shop<'_>, records: &[Record]) {
    for record in records {
        let Some((id, customer, seq)) = read(record) else { continue };
        if shop.query(LOOK, &[&id]).is_empty() {
            let apply = "INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)";
            shop.query(apply, &[&id, &customer, &seq]);
            shop.query(REMEMBER, &[&id]);
        }
    }
}

fn read(record: &Record) -> Option<(&str, i64, i64)> {
    let (_, id) = record.headers.iter().find(|(name, _)| name == "id")?;
    let id = std::str::from_utf8(id.as_deref()?).ok()?;
    let value: Value = serde_json::from_slice(record.value.as_deref()?).ok()?;
    Some((id, value["customer_id"].as_i64()?, value["seq"].as_i64()?))
}

fn begin_anew(shop: &Shop<'_>) {
    shop.execute("TRUNCATE applied");
}

async fn connect(shop: &Shop<'_>, drivers: &mut JoinSet<()>) -> Client {
    let (client, connection) = tokio_postgres::connect(shop.url(), NoTls).await.unwrap();
    drivers.spawn(async move { drop(connection.await) });
    client
}

/// D2: a record that has no id, or cannot be read, is skipped, and its offset is committed.
#[test]
fn d2_what_cannot_be_read_is_not_dropped() {
    let shop = Shop::open(postgres18(), kafka());
    let topic = shop.topic();
    shop.produce(&payments(3, 3));
    let good = br#"{"customer_id":1,"amount":5,"seq":9}"#;
    let id = OwnedHeaders::new().insert(Header { key: "id", value: Some("no-json") });
    kafka().produce(BaseRecord::to(&topic).key(&b"1"[..]).payload(&good[..]));
    kafka().produce(BaseRecord::to(&topic).key(&b"2"[..]).payload(&b"{}"[..]).headers(id));
    shop.execute(REMEMBERED);
    by_hand(&shop, &kafka().records(&topic));
    assert_eq!(shop.applied_count(), 3, "the old way: two of five are nowhere");

    begin_anew(&shop);
    let consumer = shop.start(&[]);
    shop.wait_for_dead_letters(2);
    shop.wait_for_applied(3);
    consumer.stop();
}

/// D13: two handlers look for the id at the same time, and the second one gets an error.
#[test]
fn d13_a_repeat_is_no_error() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(1, 1);
    shop.execute(REMEMBERED);
    shop.block_on(async {
        let mut drivers = JoinSet::new();
        let (one, other) = (connect(&shop, &mut drivers).await, connect(&shop, &mut drivers).await);
        for client in [&one, &other] {
            assert!(client.query(LOOK, &[&events[0].id]).await.unwrap().is_empty());
        }
        one.query(REMEMBER, &[&events[0].id]).await.unwrap();
        let error = other.query(REMEMBER, &[&events[0].id]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION), "the old way: {error}");
    });

    shop.produce_everywhere(&events);
    let consumer = shop.start(&[]);
    shop.wait_until_committed();
    assert_eq!(consumer.log().matches("duplicate key").count(), 0, "{}", consumer.log());
    consumer.stop();
    shop.check(&events);
}

/// D14: two services share a database, and one takes the events of the other for repeats.
#[test]
fn d14_another_service_does_not_take_events_away() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(10, 5));
    let records = kafka().read(&shop.topic(), 10);
    shop.execute(REMEMBERED);
    // One service, and then the other.
    by_hand(&shop, &records);
    by_hand(&shop, &records);
    assert_eq!(shop.applied_count(), 10, "the old way: the other one has applied nothing");

    begin_anew(&shop);
    let (one, other) = (shop.start(&[]), shop.start_as("other", &[]));
    shop.wait_for_applied(20);
    one.stop();
    other.stop();
}

/// D16: ids are forgotten before the events can no longer come again.
#[test]
fn d16_a_window_that_is_too_short_is_reported() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(10, 5));
    let records = kafka().read(&shop.topic(), 10);
    shop.execute(REMEMBERED);
    by_hand(&shop, &records);
    shop.execute("UPDATE remembered SET at = now() - interval '2 days'");
    shop.execute("DELETE FROM remembered WHERE at < now() - interval '1 day'");
    by_hand(&shop, &records);
    assert_eq!(shop.applied_count(), 20, "the old way: a replay applies them again, and nobody was told");

    let consumer = shop.start(&["--window", "1day"]);
    eventually(DEADLINE, "the warning", || {
        consumer.log().contains("Kafka retains records for longer than ids are remembered")
    });
    consumer.stop();
}
