//! Handlers whose transaction is one of sqlx.

use std::thread;

use outboxd_inbox::core::Retry;
use outboxd_inbox::kafka::{Consumer, DeadLetters};
use outboxd_inbox::postgres::{Connector, SqlxTransaction};
use outboxd_inbox::testing::{Harness, event};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

#[derive(Deserialize)]
struct Payment {
    customer_id: i64,
    amount: i64,
    seq: i64,
    fail: String,
}

async fn pay(mut transaction: SqlxTransaction, event: Delivery) -> Result<(), Failure> {
    let payment: Payment = event.json().map_err(Failure::poison)?;
    sqlx::query("UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2")
        .bind(payment.amount)
        .bind(payment.customer_id)
        .execute(&mut *transaction)
        .await?;
    if payment.fail == "always" || payment.fail == "once" && event.attempt() == 1 {
        return Err(Failure::retry("the event says so"));
    }
    sqlx::query("INSERT INTO applied (event_id, customer_id, seq) VALUES ($1, $2, $3)")
        .bind(event.id())
        .bind(payment.customer_id)
        .bind(payment.seq)
        .execute(&mut *transaction)
        .await?;
    Ok(())
}

#[test]
fn each_event_is_applied_once_and_in_order_with_sqlx() {
    let shop = Shop::open(postgres18(), kafka());
    let mut events = payments(400, 20);
    events[31].fail = "once";
    events[47].fail = "always";
    shop.produce(&events);
    shop.produce(&events[100..200]);
    let connector = Connector::sqlx(shop.url().parse().unwrap());
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka().bootstrap());
    let dead_letters = DeadLetters::topic(&config, &shop.dead_letter_topic()).unwrap();
    let inbox = Inbox::new(connector.clone(), shop.name(), dead_letters)
        .batch(10.try_into().unwrap())
        .retry(Retry::new([50].map(std::time::Duration::from_millis)));
    config.set("group.id", shop.name());
    let (stop, stopped) = oneshot::channel::<()>();
    let topic = shop.topic();
    let consumer = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            connector.create_tables().await.unwrap();
            let kafka = Consumer::subscribe(&config, &[&topic]).unwrap();
            inbox.run(kafka, pay, async { drop(stopped.await) }).await.unwrap();
        });
    });
    let dead = shop.wait_for_dead_letters(1);
    shop.wait_for_applied(399);
    shop.wait_until_committed();
    stop.send(()).unwrap();
    consumer.join().unwrap();
    let given_up = events.remove(47);
    assert_eq!(dead.iter().map(|record| record.header("id")).collect::<Vec<_>>(), [given_up.id]);
    shop.check(&events);
}

#[test]
fn the_harness_tries_handlers_of_sqlx_too() {
    let shop = Shop::open(postgres18(), kafka());
    let value = |seq| format!(r#"{{"customer_id":{},"amount":3,"seq":{seq},"fail":"no"}}"#, seq % 2);
    let events: Vec<_> =
        (0..4).map(|n| event(&(n % 2).to_string(), &format!("event-{n}"), &value(n))).collect();
    let harness = Harness::new(Connector::sqlx(shop.url().parse().unwrap()))
        .reset("UPDATE customers SET lifetime_value = 0; TRUNCATE applied")
        .observe("SELECT id, lifetime_value FROM customers WHERE lifetime_value > 0 ORDER BY id")
        .observe("SELECT event_id, seq FROM applied ORDER BY event_id")
        .schedules(5);
    shop.block_on(harness.check(&events, pay)).unwrap();
}
