//! The harness for handlers finds what is planted, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use outboxd_inbox::event::Event;
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::testing::{Harness, HarnessError, event};
use outboxd_inbox::{Delivery, Failure};
use serde::Deserialize;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, NoTls};

use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

#[derive(Deserialize)]
struct Spent {
    customer: i64,
    amount: i64,
}

const SPEND: &str = "UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2";

fn events() -> Vec<Event> {
    let spent = |n: i64| {
        let customer = n % 2;
        event(
            &customer.to_string(),
            &format!("event-{n}"),
            &format!(r#"{{"customer":{customer},"amount":{n}}}"#),
        )
    };
    (1..5).map(spent).collect()
}

fn harness(shop: &Shop<'_>) -> Harness {
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    Harness::new(connector)
        .reset("UPDATE customers SET lifetime_value = 0; TRUNCATE applied")
        .observe("SELECT id, lifetime_value FROM customers WHERE lifetime_value > 0 ORDER BY id")
        .observe("SELECT event_id FROM applied ORDER BY event_id")
        .schedules(5)
}

async fn spend(client: &Client, event: &Delivery) -> Result<(), Failure> {
    let spent: Spent = event.json().map_err(Failure::poison)?;
    let parameters = [(&spent.amount as _, Type::INT8), (&spent.customer as _, Type::INT8)];
    client.execute_typed(SPEND, &parameters).await?;
    Ok(())
}

async fn write_down(client: &Client, event: &Delivery) -> Result<(), Failure> {
    let sql = "INSERT INTO applied (event_id) VALUES ($1)";
    client.execute_typed(sql, &[(&event.id(), Type::TEXT)]).await?;
    Ok(())
}

#[test]
fn the_harness_passes_a_handler_whose_effect_is_in_the_transaction() {
    let shop = Shop::open(postgres18(), kafka());
    let handler = |transaction: Transaction, event: Delivery| async move {
        spend(&transaction, &event).await?;
        write_down(&transaction, &event).await
    };
    shop.block_on(harness(&shop).check(&events(), handler)).unwrap();
}

#[test]
fn the_harness_finds_an_effect_outside_of_the_transaction() {
    let shop = Shop::open(postgres18(), kafka());
    let found = shop.block_on(async {
        let (other, connection) = tokio_postgres::connect(shop.url(), NoTls).await.unwrap();
        let mut driver = tokio::task::JoinSet::new();
        driver.spawn(connection);
        let other = Arc::new(other);
        let handler = move |transaction: Transaction, event: Delivery| {
            let other = Arc::clone(&other);
            async move {
                spend(&transaction, &event).await?;
                write_down(&other, &event).await
            }
        };
        harness(&shop).check(&events(), handler).await
    });
    let Err(HarnessError::Different { expected, observed, .. }) = found else { panic!("{found:?}") };
    // The sums are right; the events are written down again.
    assert_eq!(expected[0], observed[0]);
    assert!(observed[1].len() > expected[1].len(), "{observed:?}");
}

#[test]
fn the_harness_finds_an_effect_on_another_service() {
    let shop = Shop::open(postgres18(), kafka());
    let called = Arc::new(AtomicI64::new(0));
    let (calls, reset) = (Arc::clone(&called), Arc::clone(&called));
    let handler = {
        let called = Arc::clone(&called);
        move |transaction: Transaction, event: Delivery| {
            let called = Arc::clone(&called);
            async move {
                called.fetch_add(1, Ordering::Relaxed);
                spend(&transaction, &event).await
            }
        }
    };
    let harness = harness(&shop)
        .reset_by(move || reset.store(0, Ordering::Relaxed))
        .observe_by(move || calls.load(Ordering::Relaxed).to_string());
    let found = shop.block_on(harness.check(&events(), handler));
    assert!(matches!(found, Err(HarnessError::Different { .. })), "{found:?}");
}

#[test]
fn the_harness_finds_what_depends_on_the_order_of_keys() {
    let shop = Shop::open(postgres18(), kafka());
    let handler = |transaction: Transaction, event: Delivery| async move {
        let spent: Spent = event.json().map_err(Failure::poison)?;
        let sql = "UPDATE customers SET lifetime_value = $1 WHERE id = 7";
        transaction.execute_typed(sql, &[(&spent.amount, Type::INT8)]).await?;
        Ok(())
    };
    let found = shop.block_on(harness(&shop).schedules(20).check(&events(), handler));
    assert!(matches!(found, Err(HarnessError::Different { .. })), "{found:?}");
}
