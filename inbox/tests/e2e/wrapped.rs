//! A consumer that the service has made itself, with a context of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use outboxd_inbox::kafka::{Consumer, DeadLetters, Error, Rebalances};
use outboxd_inbox::postgres::{Connector, Transaction};
use outboxd_inbox::{Delivery, Failure, Inbox};
use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext, Rebalance, StreamConsumer};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

use crate::shop::{Shop, payments};
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

/// Context of a service of its own: it counts its rebalances. It may forget to notify the inbox.
#[derive(Default)]
struct Context {
    rebalances: Rebalances,
    count: AtomicUsize,
    forgets: bool,
}

impl ClientContext for Context {}

impl ConsumerContext for Context {
    fn pre_rebalance(&self, consumer: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if !self.forgets {
            self.rebalances.notify(consumer, rebalance);
        }
    }
}

impl AsRef<Rebalances> for Context {
    fn as_ref(&self) -> &Rebalances {
        &self.rebalances
    }
}

#[derive(Deserialize)]
struct Payment {
    customer_id: i64,
    amount: i64,
    seq: i64,
}

async fn pay(transaction: Transaction, event: Delivery) -> Result<(), Failure> {
    let payment: Payment = event.json().map_err(Failure::poison)?;
    let sql = "WITH spent AS (UPDATE customers SET lifetime_value = lifetime_value + $1 WHERE id = $2) \
               INSERT INTO applied (event_id, customer_id, seq) VALUES ($3, $2, $4)";
    let id = event.id();
    let parameters = [
        (&payment.amount as _, Type::INT8),
        (&payment.customer_id as _, Type::INT8),
        (&id as _, Type::TEXT),
        (&payment.seq as _, Type::INT8),
    ];
    transaction.execute_typed(sql, &parameters).await?;
    Ok(())
}

fn config(shop: &Shop<'_>) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", kafka().bootstrap()).set("group.id", shop.name());
    config.set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    config
}

fn inbox(shop: &Shop<'_>, config: &ClientConfig) -> Inbox {
    let connector = Connector::new(shop.url().parse().unwrap(), NoTls);
    shop.block_on(connector.create_tables()).unwrap();
    Inbox::new(connector, shop.name(), DeadLetters::topic(config, &shop.dead_letter_topic()).unwrap())
}

#[test]
fn a_consumer_of_the_service_is_wrapped_and_stays_the_services() {
    let shop = Shop::open(postgres18(), kafka());
    let events = payments(400, 20);
    shop.produce(&events);
    let (config, topic) = (config(&shop), shop.topic());
    let inbox = inbox(&shop, &config);
    let (stop, stopped) = oneshot::channel::<()>();
    let (send, received) = std::sync::mpsc::channel();
    let running = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let own: StreamConsumer<Context> = config.create_with_context(Context::default()).unwrap();
            let own = Arc::new(own);
            own.subscribe(&[&topic]).unwrap();
            send.send(Arc::clone(&own)).unwrap();
            let wrapped = Consumer::wrap(own, &config).unwrap();
            inbox.run(wrapped, pay, async { drop(stopped.await) }).await.unwrap();
        });
    });
    let own = received.recv().unwrap();
    shop.wait_for_applied(400);
    shop.wait_until_committed();
    assert_eq!(own.assignment().unwrap().count(), 3);
    assert!(own.context().count.load(Ordering::Relaxed) > 0);
    stop.send(()).unwrap();
    running.join().unwrap();
    shop.check(&events);
}

#[test]
fn a_context_that_keeps_its_rebalances_for_itself_is_reported() {
    let shop = Shop::open(postgres18(), kafka());
    shop.produce(&payments(1, 1));
    let config = config(&shop);
    let inbox = inbox(&shop, &config);
    let ended = shop.block_on(async {
        let context = Context { forgets: true, ..Context::default() };
        let own: StreamConsumer<Context> = config.create_with_context(context).unwrap();
        own.subscribe(&[&shop.topic()]).unwrap();
        let wrapped = Consumer::wrap(Arc::new(own), &config).unwrap();
        inbox.run(wrapped, pay, std::future::pending()).await
    });
    assert!(matches!(ended, Err(outboxd_inbox::Error::Kafka(Error::NotTold))), "{ended:?}");
}
